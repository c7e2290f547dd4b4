-- docs.lua - reads the documents (headings, links, code blocks) and runs their code blocks.
--
-- A block is ```lua, ```sh or ```text. HTML comments directly above a block are its notes:
--   file: NAME        lua: save the block under that name, for later blocks
--   run: COMMAND      lua: the command; SCRIPT is the file (default: perfl -q SCRIPT -- true)
--   as: USER          run it as that user
--   status: N         expected exit status (default 0)
--   not run: WHY      do not run the block
--   vary: PATTERN     text: matches of this Lua pattern differ from run to run
--   gaps: WHY         text: other lines may come between the shown lines
-- A ```text block is the output of the block before it, errors included. Numbers and the width
-- of white space may differ; a line "..." matches any lines, " ..." the rest of a line.

local run = require "spec.support.run"

local M = {}

function M.slurp(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

local function directive(notes, line)
  local key, value = line:match("^<!%-%- ([%l ]-): (.-) %-%->$")
  if not key then return false end
  if key == "vary" then
    notes.vary = notes.vary or {}
    table.insert(notes.vary, value)
  else
    notes[key] = value
  end
  return true
end

--- Splits a document into its parts.
-- @treturn table  `blocks` ({ lang, text, line, notes... }), `headings` ({ level, text, line }),
--                 `lines` outside of blocks ({ text, line })
function M.read(path)
  local doc = { path = path, blocks = {}, headings = {}, lines = {} }
  local notes, block, number = {}, nil, 0
  for line in (M.slurp(path) .. "\n"):gmatch("([^\n]*)\n") do
    number = number + 1
    if block then
      if line == "```" then
        block.text = table.concat(block, "\n") .. "\n"
        block, notes = nil, {}
      else
        block[#block + 1] = line
      end
    elseif line:find("^```") then
      block = notes
      block.lang, block.line = line:match("^```(%S*)"), number
      table.insert(doc.blocks, block)
    elseif not directive(notes, line) then
      notes = {}
      local marks, text = line:match("^(#+) (.*)$")
      if marks then table.insert(doc.headings, { level = #marks, text = text, line = number }) end
      table.insert(doc.lines, { text = line, line = number })
    end
  end
  assert(not block, path .. ": a block has no end")
  for i, b in ipairs(doc.blocks) do
    if b.lang == "text" and not b["not run"] and i > 1 then doc.blocks[i - 1].output = b end
  end
  return doc
end

--- Returns the paths of the Lua interface's pages.
function M.api_pages()
  local paths = {}
  for path in run.capture("ls doc/api/*.md"):gmatch "[^\n]+" do paths[#paths + 1] = path end
  return paths
end

--- Returns the anchor that GitHub makes from a heading.
function M.anchor(heading)
  return (heading:lower():gsub("[^%w_%- ]", ""):gsub(" ", "-"))
end

--- The anchors of a page's headings: anchor -> true
function M.anchors(path)
  local set = {}
  for _, heading in ipairs(M.read(path).headings) do set[M.anchor(heading.text)] = true end
  return set
end

-- ---- output ----

local function escaped(s)
  return (s:gsub("%p", "%%%0"))
end

-- Makes from a line of text the pattern that matches the same line in another run.
local function pattern_of(line, vary)
  local out, at = {}, 1
  local shown, cut = line:gsub(" %.%.%.$", "")
  line = shown
  local kinds = { { "%s+", "%%s+" } }
  for _, pattern in ipairs(vary or {}) do kinds[#kinds + 1] = { pattern } end
  kinds[#kinds + 1] = { "[%d][%d,]*%.?%d*", "[%%d,]+%%.?%%d*" }
  while at <= #line do
    local first, last, with
    for _, kind in ipairs(kinds) do
      local from, to = line:find(kind[1], at)
      if from and to >= from and (not first or from < first) then
        first, last, with = from, to, kind[2] and kind[2]:gsub("%%%%", "%%") or kind[1]
      end
    end
    if not first then break end
    out[#out + 1] = escaped(line:sub(at, first - 1)) .. with
    at = last + 1
  end
  return "^%s*" .. (table.concat(out) .. escaped(line:sub(at))):gsub("^%%s%+", "")
    .. (cut > 0 and "" or "%s*$")
end

-- The summary line has the cost per record only after enough records; their number depends on the machine's files.
local function lines_of(text)
  local lines = {}
  text = text:gsub(" %(%d+ ns a record%)%f[\n\0]", "")
  for line in text:gmatch("([^\n]*)\n?") do lines[#lines + 1] = line end
  while lines[#lines] == "" do lines[#lines] = nil end
  return lines
end

--- Compares a block's output with the text that the document shows.
-- @tparam table how  the ```text block's notes: `vary`, `gaps`
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  the document's first line that the output lacks
function M.compare(shown, printed, how)
  local want, got, at, gap = lines_of(shown), lines_of(printed), 1, false
  for _, line in ipairs(want) do
    if line:match("^%s*%.%.%.$") then
      gap = true
    else
      local pattern = pattern_of(line, how.vary)
      gap = gap or how.gaps
      while gap and got[at] and not got[at]:find(pattern) do at = at + 1 end
      if not (got[at] and got[at]:find(pattern)) then
        return nil, ("'%s' was not printed; there is '%s'"):format(line, got[at] or "the end")
      end
      at, gap = at + 1, false
    end
  end
  if gap or not got[at] then return true end
  return nil, ("'%s' is not in the document"):format(got[at])
end

-- ---- running ----

-- A program with a function work(), and with line 12 in a function with the variables n and req.
local SERVER = [[
struct request { long len; };

__attribute__((noinline)) long work(long n)
{
	volatile long sum = 0;
	while (n--) sum += n;
	return sum;
}
__attribute__((noinline)) long handle(long n, struct request *req)
{
	return work(n * req->len);
}
int main(void)
{
	struct request req = { 1000 };
	return handle(50000, &req) == 0;
}
]]

--- Makes a directory in which documents' commands run: perfl is in PATH and the module is found.
function M.place()
  local dir = run.tempdir()
  local here = run.capture("pwd -P")
  -- A copy that every user can read, and the scripts for their examples.
  assert(os.execute(("mkdir %s/bin %s/work && cp -R scripts %s && cp -R %s %s/perfev %s/bin/"):format(
    dir, dir, dir, run.quote(run.perfl), run.quote(run.perfl:match("^(.*)/") or "."), dir)))
  -- The examples watch these programs in place of a user's own.
  for _, name in ipairs { "before", "after" } do
    run.write_file(("%s/%s.folded"):format(dir, name), "main;" .. name .. " 3\n")
  end
  run.write_file(dir .. "/bin/make", "#!/bin/sh\nexec ls -R /usr/include/linux >/dev/null\n")
  run.write_file(dir .. "/srv.c", SERVER)
  assert(os.execute(("cd %s && gcc -g -o srv srv.c && cp srv server"):format(dir)))
  assert(os.execute(("chmod 755 %s/bin/make && chmod 777 %s/work"):format(dir, dir)))
  return {
    dir = dir, work = dir .. "/work",
    env = {
      PATH = dir .. "/bin:" .. os.getenv("PATH"),
      LUA_PATH = ("%s/lua/?.lua;%s/lua/?/init.lua;;"):format(here, here),
      LUA_CPATH = here .. "/build/?.so;;",
    },
  }
end

function M.leave(place)
  run.remove(place.dir)
end

-- Lines that perfl adds when other processes held the CPU for too long. No document shows them.
local function without_losses(text)
  return (text:gsub("perfl: records were lost because they came faster [^\n]*\n  try: [^\n]*\n", "")
    :gsub("perfl: [^\n]*side%-band records? lost[^\n]*\n", ""))
end

--- Runs a shell line there -> run's result; `out` has all output without the lines of progress and losses.
function M.shell(place, text, user, cwd)
  local result = run("exec 2>&1\n" .. text, { cwd = cwd or place.work, env = place.env, user = user })
  result.out = without_losses(run.without_progress(result.out))
  return result
end

--- Runs a block -> run's result, or nil for a block that does not run.
function M.run(place, block)
  if block["not run"] or block.lang == "text" then return nil end
  if block.lang == "sh" then return M.shell(place, block.text, block.as) end
  local name = block.file or "block.lua"
  run.write_file(place.work .. "/" .. name, block.text)
  if block.file and not block.run then return nil end
  local line = (block.run or "perfl -q SCRIPT -- true"):gsub("SCRIPT", "./" .. name)
  return M.shell(place, line, block.as)
end

return M
