--- Counts reads and page faults of files that find their pages in the page cache, and those that do not.
--
-- The kernel reports a read when it has the pages, after it has added those that were missing, and a page fault before.
-- If it has to wait for the disk, it reports the fault a second time. All of this is done by the thread that reads.

local session = require "perfev.live.session"

local M = {}

local function new_counts() return { hits = 0, misses = 0, added = 0, removed = 0 } end

--- See perfev.tool.count_cache_uses.
-- @treturn function  f() -> the counts since its last call
function M.count()
  local s, counts = session.default(), new_counts()
  -- By thread: the file of its last additions and their pages, `from` to `to`; the page of its `fault`, and the
  -- counts that have it as a hit.
  local threads = {}

  local function add(key, n) counts[key] = counts[key] + n end

  local function state_of(tid, dev, inode)
    local state = threads[tid]
    if not state or state.dev ~= dev or state.inode ~= inode then
      state = { dev = dev, inode = inode }
      threads[tid] = state
    end
    return state
  end

  s:event { "filemap:mm_filemap_add_to_page_cache",
    fields = { "tid", "args.s_dev", "args.i_ino", "args.index", "args.order" },
    sample = function(tid, dev, inode, from, order)
      local state, to = state_of(tid, dev, inode), from + (1 << order) - 1
      add("added", 1 << order)
      if state.hits == counts and from <= state.fault and state.fault <= to then -- not taken since
        state.hits = nil
        add("hits", -1)
        add("misses", 1)
      end
      state.from, state.to = math.min(state.from or from, from), math.max(state.to or to, to)
    end }

  s:event { "filemap:mm_filemap_get_pages",
    fields = { "tid", "args.s_dev", "args.i_ino", "args.index", "args.last_index" },
    sample = function(tid, dev, inode, from, to)
      local state = state_of(tid, dev, inode)
      add(state.from and state.from <= to and from <= state.to and "misses" or "hits", 1)
      threads[tid] = nil
    end }

  s:event { "filemap:mm_filemap_fault", fields = { "tid", "args.s_dev", "args.i_ino", "args.index" },
    sample = function(tid, dev, inode, page)
      if state_of(tid, dev, inode).fault ~= page then
        threads[tid] = { dev = dev, inode = inode, fault = page, hits = counts }
        add("hits", 1) -- unless the thread adds this page
      end
    end }

  s:event { "filemap:mm_filemap_delete_from_page_cache", fields = { "args.order" },
    sample = function(order) add("removed", 1 << order) end }

  s:event { exit = function(r) threads[r.tid] = nil end }

  return function()
    local taken = counts
    counts = new_counts()
    return taken
  end
end

return M
