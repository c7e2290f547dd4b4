-- Debug files over HTTP, from elfutils' server, and from servers that lack the file, return garbage or do not answer.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local cc = os.getenv "CC" or "gcc"

local function sh(command)
  local r = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, r.code, r.err)
  return r.out
end

-- A program without symbols, with its debug file below `served`; its build-id.
local id
local function program()
  if id then return id end
  local source = run.capture "pwd" .. "/spec/support/hot.c"
  sh(("%s -O0 -g -o hot %s -ldl && mkdir served && objcopy --only-keep-debug hot hot.debug && strip hot")
    :format(cc, source))
  id = sh "readelf -n hot":match "Build ID: (%x+)"
  sh(("mkdir -p served/buildid/%s && mv hot.debug served/buildid/%s/debuginfo"):format(id, id))
  return id
end

-- Returns the functions in the program's samples, and perfl's output.
local caches = 0
local function told(url, more)
  caches = caches + 1
  local env = { DEBUGINFOD_URLS = url, DEBUGINFOD_CACHE_PATH = ("%s/cache%d"):format(dir, caches), HOME = dir }
  for name, value in pairs(more or {}) do env[name] = value end
  local script = "event { 'cpu-clock:u', period = 100000, callchain = true, sample = function(r) print(r.symbol) end }"
  local r = run({ run.perfl, "--debuginfod", "-e", script, "--", dir .. "/hot", "20" }, { timeout = 300, env = env })
  assert.equal(0, r.code, r.err)
  return r
end

-- Run f(url) beside a server that ends with its standard input, which is f's end.
local function beside(command, f)
  local out = os.tmpname()
  local pipe = assert(io.popen(("{ %s; echo 0; } > %s"):format(command, out), "w"))
  finally(function()
    pipe:close()
    os.remove(out)
  end)
  local port
  repeat port = (run.slurp(out) or ""):match "(%d+)\n" until port
  assert(port ~= "0", command .. " has ended")
  return f("http://127.0.0.1:" .. port)
end

local function beside_web(f) return beside(("perl spec/support/web.pl %s/served"):format(dir), f) end

local needs = { "perf", "cc", "program objcopy", "program strip", "library libdebuginfod.so.1" }

describe("a debug file over HTTP", function()
  it("comes from elfutils' own server", function()
    requires("program debuginfod", "program timeout", "program bash", table.unpack(needs))
    program()
    -- It takes no port of the kernel's choice: the first that is free; and it is asked until it has read the file.
    local script = [=[
      cd %s/served || exit
      has() (
        exec 3<> /dev/tcp/127.0.0.1/$1 && printf "GET /buildid/%s/debuginfo HTTP/1.0\r\n\r\n" >&3 &&
          read -r _ status _ <&3 && [ "$status" = 200 ]
      ) 2> /dev/null
      for port in $(shuf -i 20000-60000 -n 20); do
        timeout 100 debuginfod -F -d :memory: -p $port . > ../log 2>&1 &
        pid=$!
        until has $port || ! kill -0 $pid 2> /dev/null; do :; done
        kill -0 $pid 2> /dev/null && echo $port && { read -r _; kill $pid; wait; exit; }
      done]=]
    local path = dir .. "/serve.sh"
    run.write_file(path, script:format(dir, id))
    local r = beside("bash " .. path, told)
    assert.is_truthy(r.out:find("\nspin\n", 1, true), r.out .. r.err)
  end)

  it("comes from any server that has it, and later from the cache", function()
    requires("program perl", table.unpack(needs))
    program()
    beside_web(function(url)
      assert.is_truthy(told(url).out:find("\nspin\n", 1, true))
      local r = told("http://127.0.0.1:1", { DEBUGINFOD_CACHE_PATH = ("%s/cache%d"):format(dir, caches) })
      assert.is_truthy(r.out:find("\nspin\n", 1, true))
    end)
  end)

  it("that no server has is missing without a message", function()
    requires("program perl", table.unpack(needs))
    program()
    local r = beside_web(function(url) return told(url .. "/elsewhere") end)
    assert.is_nil(r.out:find("spin", 1, true))
    assert.is_nil(r.err:find("debuginfod", 1, true), r.err)
  end)

  it("of other content is not used, with a message", function()
    requires("program perl", table.unpack(needs))
    program()
    local r = beside_web(function(url) return told(url .. "/garbage") end)
    assert.is_nil(r.out:find("spin", 1, true))
    assert.is_truthy(r.err:find("a debuginfod server's answer is not the debug file of " .. dir .. "/hot\n  try: rm "
      .. dir .. "/cache", 1, true), r.err)
  end)

  it("is given up if there is no server or no answer, and no other file is requested", function()
    requires("program perl", table.unpack(needs))
    program()
    local r = told "http://127.0.0.1:1"
    assert.is_truthy(r.err:find("debug files are not fetched: no debuginfod server returned the file: "
      .. "Connection refused", 1, true), r.err)
    r = beside_web(function(url) return told(url .. "/never", { DEBUGINFOD_TIMEOUT = "1",
      DEBUGINFOD_RETRY_LIMIT = "0" }) end)
    assert.is_nil(r.out:find("spin", 1, true))
    assert.is_truthy(r.err:find("debug files are not fetched: no debuginfod server returned the file: Timer expired", 1,
      true), r.err)
  end)
end)
