-- The same sources give the same bytes, whatever the folder, the umask, the time zone and the language.

local run = require "spec.support.run"

local built = io.open("build/flags")
local flags = built and built:read "a" or ""

local products = { "perfl", "libperfev.a", "types/perfev.lua" }
local other_build = run.capture "pwd -P" .. "/build"

local function must(cmd)
  local result = run({ "sh", "-c", cmd }, { env = { MAKEFLAGS = false, MAKELEVEL = false } })
  assert(result.code == 0, cmd .. "\n" .. result.out .. result.err)
  return result.out
end

describe("a build", function()
  local it = require "spec.support.skip"(it, function()
    if not built then pending "no build/ to compare with" end
    if os.getenv "PERFL" then pending "runs only with the perfl of build/" end
  end)

  it("in another folder has the same bytes", function()
    local copy = run.tempdir()
    finally(function() run.remove(copy) end)
    must(("tar -c Makefile src lua scripts doc README.md | tar -xC %s"):format(copy))
    local cc, werror = flags:match "^%S+", flags:find("-Werror", 1, true) and "WERROR=1" or ""
    must(("cd %s && umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 make -j2 CC='%s' %s > log 2>&1 || { cat log; exit 1; }")
      :format(copy, cc, werror))
    for path in must(("cd %s/build && find perfev man -name '*.so' -o -name '*.1'"):format(copy)):gmatch "%S+" do
      table.insert(products, path)
    end
    assert(#products > 5)
    for _, path in ipairs(products) do
      must(("cmp %s/build/%s %s/%s"):format(copy, path, other_build, path))
    end
  end)
end)
