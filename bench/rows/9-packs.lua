-- Packs: their size for each interval, and the time to merge those of many hosts.

return function(bench)
  local function command(words) return "env " .. bench.lua("bench/packs.lua " .. words) end
  local function sizes(rows)
    local list = {}
    for i, row in ipairs(rows) do list[i] = { row[1], command("bytes " .. row[2]) } end
    return list
  end
  local function merges(kind, numbers, copied)
    local rows = {}
    for _, nr in ipairs(numbers) do
      rows[#rows + 1] = { ("%d packs"):format(nr), command(("merge %s %d"):format(kind, nr)),
        goal = nr > numbers[1] and 1.3 or nil }
    end
    rows[#rows + 1] = { ("%d packs, copied each time"):format(copied),
      command(("merge %s %d copy"):format(kind, copied)) }
    return rows
  end
  local function part(title, kind, numbers, copied)
    return { title = title, unit = "us a pack", measure = "output", base = ("%d packs"):format(numbers[1]),
      memory = true, rows = merges(kind, numbers, copied) }
  end
  return {
    { title = "Packs: size for an interval", unit = "bytes", measure = "output", base = "300 stacks as folded text",
      rows = sizes { { "300 stacks as folded text", "count" }, { "a profile of 300 stacks", "profile" },
        { "a histogram of one key", "hist" } } },
    part("Packs unpacked and merged: profiles of 300 stacks, the same in each", "profile", { 50, 500, 5000 }, 500),
    part("Packs unpacked and merged: counts of 300 stacks, the same in each", "count", { 50, 500, 5000 }, 500),
    part("Packs unpacked and merged: counts of 300 stacks, others in each", "distinct", { 50, 500 }, 500),
    part("Packs unpacked and merged: a histogram of one key", "hist", { 50, 500, 5000 }, 500),
  }
end
