-- The rockspecs of releases against the one of a checkout, and against the version of the Makefile.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local version = run.slurp("Makefile"):match "\nVERSION := ([%d.]+)\n"

local function read(path)
  local rock = {}
  assert(loadfile(path, "t", rock))()
  return rock
end

describe("the rockspecs", function()
  local paths = {}
  for path in run.capture "ls rockspec/*.rockspec":gmatch "[^\n]+" do paths[#paths + 1] = path end

  it("have one of the release in the Makefile, whose tag has its version", function()
    local rock = read(("rockspec/perfev-%s-1.rockspec"):format(version))
    assert.same({ version .. "-1", "v" .. version }, { rock.version, rock.source.tag })
  end)

  it("differ in the version and the source alone: make installs the same files", function()
    local first = read "rockspec/perfev-scm-1.rockspec"
    assert.equal("make", first.build.type)
    assert.is_true(#paths > 1)
    for _, path in ipairs(paths) do
      local rock = read(path)
      assert.equal(path, ("rockspec/%s-%s.rockspec"):format(rock.package, rock.version))
      assert.equal(first.source.url, rock.source.url)
      rock.version, rock.source = first.version, first.source
      assert.same(first, rock)
    end
  end)

  it("are valid for luarocks", function()
    if requires.missing "program luarocks" then return end
    for _, path in ipairs(paths) do
      local r = run { "luarocks", "--lua-version=5.4", "lint", path }
      assert(r.code == 0, r.out .. r.err)
    end
  end)
end)
