-- A machine with only perfl's static file: perfl profiles it as in the README, and names the cause of refusals when the
-- kernel is locked down. VM_BARE: the words of guest.sh that boot it (vm.sh).

local run = require "spec.support.run"

local bare = os.getenv "VM_BARE"
if bare == "" then bare = nil end
local said
local OUT_OF_TIME = 124 -- of guest.sh

setup(function()
  if not bare then return end
  said = run("exec spec/vm/guest.sh -m 256 -t 500 " .. bare .. [[ '
    cd /; /perfl --version
    (while :; do :; done) & busy=$!
    echo "== profile"; /perfl profile -a -d 5s -f folded; echo "status $?"
    kill $busy
    echo "== lockdown"; echo confidentiality > /sys/kernel/security/lockdown
    /perfl -q -e "event { \"kprobe:do_exit\", sample = print }" -- /vm/bin/true; echo "status $?"
    /perfl doctor']])
end)

local function part(from, to)
  if not bare then pending "no guest" end
  if said.code == OUT_OF_TIME then pending "it took this machine too long" end
  return assert(said.out:match(from .. "(.-)" .. to), said.out .. said.err)
end

describe("perfl as one file, where nothing else is", function()
  it("tells what it is and what it lacks", function()
    assert.matches("one static file.-\nmissing: ", part("", "== profile"))
  end)

  it("profiles the machine, with names", function()
    local text = part("== profile\n", "== lockdown")
    assert.matches("\nstatus 0\n", text)
    assert.matches("%f[%w]sh;?[^\n]* %d+\n", text)
  end)

  it("names the lockdown that keeps a kprobe out", function()
    local text = part("== lockdown\n", "\nstatus ")
    if text:find "can't create" or text:find "nonexistent" then pending "no lockdown in this kernel" end
    assert.matches("lockdown", text)
    assert.matches("\n%s+try: ", text)
  end)
end)
