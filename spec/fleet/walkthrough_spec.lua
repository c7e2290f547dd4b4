-- The commands of doc/fleet.md, from zero to three hosts, in one shell as a reader would type them.

local docs = require "spec.support.docs"
local run = require "spec.support.run"

local page = docs.read "doc/fleet.md"

local function why_not()
  if not pcall(require, "perfev.nats") then return "perfev.nats is not built" end
  for _, name in ipairs { "nats-server", "openssl", "ssh-keygen", "setsid" } do
    if not run.have(name) then return name .. " is not installed" end
  end
  if not run.root then return "watching the machine needs root" end
  if not run.capture "test -r /sys/kernel/tracing/events/sched && echo yes" then
    return "no tracefs is mounted at /sys/kernel/tracing"
  end
end

local function free_port()
  return run.capture [[perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(LocalAddr => "127.0.0.1",
    Listen => 1)->sockport']]
end

describe("doc/fleet.md", function()
  it("does what it shows, line by line, on a port that is free", function()
    local reason = why_not()
    if reason then pending(reason) end
    local place, dir, port = docs.place(), run.tempdir(), free_port()
    local function fitted(text) return (text:gsub("/tmp/fleet", dir):gsub("%f[%d]4222%f[%D]", port)) end
    -- Each block ends with a line that names it, so that its output can be found.
    local script, blocks = { "set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT" }, {}
    for _, block in ipairs(page.blocks) do
      if block.lang == "sh" and not block["not run"] then
        blocks[#blocks + 1] = block
        script[#script + 1] = fitted(block.text) .. ("echo '== line %d'"):format(block.line)
      end
    end
    local path = run.write_file(dir .. ".sh", table.concat(script, "\n"))
    -- timeout(1) ends the whole process group, which is that of this shell.
    local r = run({ "setsid", "-w", "timeout", "-k", "1", "120", "bash", path }, { env = place.env, timeout = 150 })
    local logs = run.capture(("cat %s/*.log"):format(dir)) or ""
    os.remove(path)
    run.remove(dir)
    docs.leave(place)
    assert.equal(0, r.code, r.out .. r.err .. logs)
    local at = 1
    for _, block in ipairs(blocks) do
      local mark = ("== line %d\n"):format(block.line)
      local from, to = r.out:find(mark, at, true)
      assert(from, mark .. r.out)
      local shown = block.output and fitted(block.output.text) or ""
      local alike, why = docs.compare(shown, r.out:sub(at, from - 1), block.output or {})
      assert(alike, ("line %d: %s\n%s"):format(block.line, tostring(why), r.out:sub(at, from - 1)))
      at = to + 1
    end
  end)

  it("names every setting, every event of the log and every metric", function()
    local text = run.slurp "doc/fleet.md"
    local config = run.slurp "lua/perfl/fleet/config.lua"
    local settings = config:match "\nlocal settings = (%b{})"
    for name in settings:gmatch "([%l_]+) = { read" do
      assert(text:find("`" .. name .. "`", 1, true), "setting " .. name)
    end
    for path in run.capture("ls lua/perfl/fleet/*.lua"):gmatch "%S+" do
      for event in run.slurp(path):gmatch 'log%.%l+%("([%l_]+)"' do
        assert(text:find("[`=]" .. event .. "`"), "event " .. event)
      end
    end
    for name in run.slurp("lua/perfl/fleet/metrics.lua"):gmatch '{ "([%l_]+)", "' do
      assert(text:find("_" .. name .. "_total`", 1, true), "metric " .. name)
    end
  end)
end)
