"""The Lua scripts that Redis runs atomically: each compares the lease before it writes. Pure text.

A script whose caller does not have the lease writes nothing.
"""

# KEYS: schema, store, lease, term. ARGV: the schema known here, whether to leave an empty store alone,
# a name for such a one, the term to begin with, the term to be above, the lease without its term and end,
# its milliseconds. Terms are whole numbers up to 2^53, so that %.0f writes them exactly. A term that is no
# number counts as unknown: the first term of a new store is above all that were counted up (decision 1).
ACQUIRE = """
local schema = redis.call('GET', KEYS[1])
if schema and (#schema > 9 or not string.match(schema, '^%d+$') or tonumber(schema) > tonumber(ARGV[1])) then
    return {'schema', schema}
end
local store = redis.pcall('GET', KEYS[2])
if type(store) ~= 'string' then store = nil end
local held = redis.call('GET', KEYS[3])
if held then return {'held', held, store or ''} end
if not store then
    if ARGV[2] == '1' then return {'empty'} end
    store = ARGV[3]
    redis.call('SET', KEYS[2], store)
end
local known = redis.pcall('GET', KEYS[4])
known = type(known) == 'string' and string.match(known, '^%d+$') and tonumber(known)
local term = math.max(known and known + 1 or tonumber(ARGV[4]), tonumber(ARGV[5]) + 1)
term = string.format('%.0f', math.min(term, 9007199254740992))
local text = ARGV[6] .. term .. '}'
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[4], term)
redis.call('SET', KEYS[3], text, 'PX', ARGV[7])
return {'held', text, store}
"""

# KEYS: lease. ARGV: the caller's lease, milliseconds.
RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

# KEYS: lease. ARGV: the caller's lease.
RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

# KEYS: lease, declarations, what is deleted.
# ARGV: the caller's lease, then name and value of each; an empty value deletes.
DECLARE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do
    if ARGV[i + 1] == '' then
        redis.call('HDEL', KEYS[2], ARGV[i])
    else
        redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    end
end
for i = 3, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
"""

# KEYS: lease, declarations, key. ARGV: the caller's lease, the upstream, a command and its arguments.
# A tick may be writing about an upstream that was deleted a moment ago: 2, and nothing of it comes back.
KEEP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return 2 end
redis.call(ARGV[3], KEYS[3], unpack(ARGV, 4))
return 1
"""

# KEYS: history. ARGV: milliseconds, by the clock that the moments were added by, and the most moments.
HISTORY = """
local now = redis.call('TIME')
local since = math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[1])
return redis.call('XREVRANGE', KEYS[1], '+', string.format('%.0f', since), 'COUNT', ARGV[2])
"""
