-- SHA-256 of a string, in lower-case hex: FIPS 180-4.

local K = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
local START = {
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

local function rotated(x, n) return (x >> n | x << 32 - n) & 0xffffffff end

-- One block of 64 bytes at pos into the eight words of h.
local function mix(h, bytes, pos)
  local w = { string.unpack(">" .. ("I4"):rep(16), bytes, pos) }
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    local near, far = rotated(x, 7) ~ rotated(x, 18) ~ x >> 3, rotated(y, 17) ~ rotated(y, 19) ~ y >> 10
    w[i] = w[i - 16] + near + w[i - 7] + far & 0xffffffff
  end
  local a, b, c, d, e, f, g, last = table.unpack(h)
  for i = 1, 64 do
    local one = last + (rotated(e, 6) ~ rotated(e, 11) ~ rotated(e, 25)) + (e & f ~ ~e & g) + K[i] + w[i]
    local two = (rotated(a, 2) ~ rotated(a, 13) ~ rotated(a, 22)) + (a & b ~ a & c ~ b & c)
    last, g, f, e, d, c, b, a = g, f, e, d + one & 0xffffffff, c, b, a, one + two & 0xffffffff
  end
  for i, v in ipairs { a, b, c, d, e, f, g, last } do h[i] = h[i] + v & 0xffffffff end
end

return function(bytes)
  local h = { table.unpack(START) }
  local all = bytes .. "\x80" .. ("\0"):rep(-(#bytes + 9) % 64) .. string.pack(">I8", 8 * #bytes)
  for pos = 1, #all, 64 do mix(h, all, pos) end
  return (("%08x"):rep(8)):format(table.unpack(h))
end
