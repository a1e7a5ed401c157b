--- Sign and check values with HMAC-SHA256, by OpenSSL.
--
-- On both platforms nginx has libcrypto in its process, because it links it for TLS; a plain LuaJIT loads it. A value
-- of 1 MB takes 1 to 3 ms, so it is hashed in pieces.

local ffi = require "ffi"
local no_pause = require("resty.vnswrr").no_pause
local signed = require "steelyard.core.signed"

-- Pointers are plain `void *`, so that other modules may declare the same functions differently.
ffi.cdef[[
const void *EVP_sha256(void);
void *HMAC_CTX_new(void);
void HMAC_CTX_free(void *context);
int HMAC_Init_ex(void *context, const void *key, int length, const void *digest, void *engine);
int HMAC_Update(void *context, const unsigned char *data, size_t length);
int HMAC_Final(void *context, unsigned char *digest, unsigned int *length);
]]

-- About 0.3 ms on a CPU without instructions for SHA.
local PIECE_BYTES = 128 * 1024

local DIGEST_BYTES = 32

local NAMES = { "crypto", "libcrypto.so.3", "libcrypto.so.1.1" }

local _M = {}


local function has_hmac(library)
    return library.HMAC_CTX_new ~= nil and library.EVP_sha256 ~= nil
end


local function find_library()
    if pcall(has_hmac, ffi.C) then
        return ffi.C
    end
    for _, name in ipairs(NAMES) do
        local ok, library = pcall(ffi.load, name)
        if ok and pcall(has_hmac, library) then
            return library
        end
    end
    return nil, "options `key` and `sticky` need OpenSSL's libcrypto (1.1 or later), which is neither in this nginx "
                .. "nor installed; install it (Debian: apt install libssl3) or leave them out"
end


local library, missing

--- Find OpenSSL. Return true, or nil and what is missing, with the remedy.
function _M.available()
    if not library then
        library, missing = find_library()
    end
    return library ~= nil or nil, missing
end


--- The 32 bytes of HMAC-SHA256(key, text). `breathe` is called between pieces.
local function hmac(key, text, breathe)
    assert(_M.available())
    local out, length = ffi.new("unsigned char[?]", DIGEST_BYTES), ffi.new("unsigned int[1]")
    local context = ffi.gc(library.HMAC_CTX_new(), library.HMAC_CTX_free)
    local data = ffi.cast("const unsigned char *", text)
    local ok = library.HMAC_Init_ex(context, key, #key, library.EVP_sha256(), nil)
    for from = 0, #text - 1, PIECE_BYTES do
        ok = ok == 1 and library.HMAC_Update(context, data + from, math.min(PIECE_BYTES, #text - from)) or 0
        breathe()
    end
    if ok ~= 1 or library.HMAC_Final(context, out, length) ~= 1 then
        error("steelyard: OpenSSL does not compute HMAC-SHA256")
    end
    return ffi.string(out, DIGEST_BYTES)
end


--- The 64 hex digits of HMAC-SHA256(key, text).
-- @param breathe called between pieces; may be left out for a short text
function _M.digest(key, text, breathe)
    return (string.gsub(hmac(key, text, breathe or no_pause), ".", function(byte)
        return string.format("%02x", string.byte(byte))
    end))
end


--- The first 32 bytes of HKDF-SHA256 (RFC 5869), as hex digits.
function _M.hkdf(secret, salt, info)
    return _M.digest(hmac(salt, secret, no_pause), info .. "\1")
end


--- Derive the key of a name from the shared key; protocol/steelyard_protocol/derived_keys.py has the names.
function _M.derive(shared, name)
    return _M.hkdf(shared, "steelyard", name)
end


--- The keys of the option `key`:
--
--   tables     a list: each may open a weight table
--   saved      signs tables on disk
--   reports    signs traffic reports
--   failures   signs failure reports between load balancers, which all have it
--
-- With the shared key, a table may be signed with that key, or with the derived key of tables (a controller with
-- --derived-keys).
function _M.keys(key)
    if not key then
        return { tables = {} }
    end
    local of_tables, of_reports = signed.load_balancer_keys(key)
    if of_tables then
        return {
            tables = { of_tables }, saved = of_tables, reports = of_reports,
            failures = _M.derive(of_tables, "failures"),
        }
    end
    local derived = _M.derive(key, "tables")
    return { tables = { key, derived }, saved = key, reports = key, failures = _M.derive(derived, "failures") }
end


--- The value to write for a text: signed if there is a key, else the text itself.
function _M.sign(key, text, breathe)
    if not key then
        return text
    end
    return signed.value(_M.digest(key, text, breathe), text)
end


--- The text of a value; nil and { reason, detail } if it is refused.
function _M.open(key, value, breathe)
    return signed.open(value, key and function(text)
        return _M.digest(key, text, breathe)
    end)
end


--- Open a value with any of several keys. The key that fits is tried first the next time.
function _M.open_with_any(keys, value, breathe)
    local text, refused = _M.open(keys[1], value, breathe)
    if text then
        return text
    end
    for i = 2, #keys do
        text, refused = _M.open(keys[i], value, breathe)
        if text then
            keys[1], keys[i] = keys[i], keys[1]
            return text
        end
    end
    return nil, refused
end


return _M
