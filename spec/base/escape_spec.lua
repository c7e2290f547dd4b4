-- Text that a terminal shows and does not obey.

local escape = require "perfev.base.escape"

describe("escape", function()
  it("leaves printable text as it is, backslashes too", function()
    local text = "ls -R /usr/share/doc \\x41 \\n ~ é € 😀 名前"
    assert.equal(text, escape(text))
    assert.equal("", escape(""))
  end)

  it("shows newline and tab by their letters", function()
    assert.equal("a\\nb\\tc", escape("a\nb\tc"))
  end)

  it("escapes the ESC of an escape sequence", function()
    assert.equal("\\x1b[31mred\\x1b[0m\\x07", escape("\27[31mred\27[0m\a"))
  end)

  it("escapes each single byte that is not printable ASCII", function()
    for byte = 0, 255 do
      local c = string.char(byte)
      local out = escape(c)
      if byte >= 0x20 and byte <= 0x7e then
        assert.equal(c, out)
      elseif c ~= "\n" and c ~= "\t" then
        assert.equal(("\\x%02x"):format(byte), out)
      end
    end
  end)

  it("escapes C1 controls in UTF-8 byte by byte", function()
    assert.equal("\\xc2\\x9b31m", escape("\u{9b}31m"))
    assert.equal("\\xc2\\x80", escape("\u{80}"))
    assert.equal("\u{a0}", escape("\u{a0}"))
  end)

  it("escapes characters that change the direction or end the line", function()
    for _, code in ipairs { 0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066,
      0x2069 } do
      local mark = utf8.char(code)
      local shown = mark:gsub(".", function(c) return ("\\x%02x"):format(c:byte()) end)
      assert.equal("a" .. shown .. "b", escape("a" .. mark .. "b"))
    end
  end)

  it("escapes bytes that are not UTF-8, and continues after them", function()
    assert.equal("\\xff\\xfeA", escape("\xff\xfeA"))
    assert.equal("\\xc3A", escape("\xc3A")) -- cut short
    assert.equal("\\xc0\\x80", escape("\xc0\x80")) -- overlong
    assert.equal("\\xed\\xa0\\x80", escape("\xed\xa0\x80")) -- a surrogate
    assert.equal("\\xf4\\x90\\x80\\x80", escape("\xf4\x90\x80\x80")) -- above U+10FFFF
    assert.equal("\\xe2\\x82", escape("\xe2\x82"))
    assert.equal("€\\xe2€", escape("€\xe2€"))
  end)

  it("returns valid UTF-8 without controls for any bytes", function()
    local state = 1
    for _ = 1, 2000 do
      local bytes = {}
      for i = 1, 12 do
        state = (state * 1103515245 + 12345) & 0x7fffffff
        bytes[i] = string.char(state >> 16 & 0xff)
      end
      local out = escape(table.concat(bytes))
      assert.is_truthy(utf8.len(out))
      assert.is_nil(out:find("[%z\1-\31\127]"))
    end
  end)
end)
