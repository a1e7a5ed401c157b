"""The Lua scripts that Redis runs atomically: each compares the lease before it writes. Pure text.

A script writes nothing if its caller does not have the lease.
"""

# KEYS: schema, store, lease, term.
# ARGV, about the store: the schema known here; whether to leave an empty one alone; a name for an empty one.
# ARGV, about the lease: the first term; the term to exceed; the text without term and end; milliseconds.
# Terms are whole numbers up to 2^53, so %.0f writes them exactly. A term that is not a number counts as
# unknown. The first term of a new store is above all terms that were counted up (decision 1).
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

# KEYS: lease, declarations, the audit logs, the keys to delete.
# ARGV: the caller's lease; the length of a log; the number of logs; the number of entries here. Each entry is
# its log (0 for the first) and its value. Each declaration is its name and its value; an empty value deletes.
# A script that fails undoes nothing. So the calls that may fail come first (HLEN: a key of another type;
# XADD). Ids are times. They are unique among all logs, so that they can be read as one.
DECLARE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HLEN', KEYS[2])
local id = 0
local first_gone = 3 + ARGV[3]
for log = 3, first_gone - 1 do
    local newest = redis.call('XREVRANGE', KEYS[log], '+', '-', 'COUNT', 1)[1]
    id = math.max(id, newest and tonumber(string.match(newest[1], '^%d+')) or 0)
end
local now = redis.call('TIME')
id = math.max(id, now[1] * 1000 + math.floor(now[2] / 1000))
local declared = 5 + 2 * ARGV[4]
for i = 5, declared - 1, 2 do
    id = id + 1
    local key = KEYS[3 + ARGV[i]]
    redis.call('XADD', key, 'MAXLEN', '~', ARGV[2], string.format('%.0f-0', id), 'e', ARGV[i + 1])
end
for i = declared, #ARGV, 2 do
    if ARGV[i + 1] == '' then
        redis.call('HDEL', KEYS[2], ARGV[i])
    else
        redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    end
end
for i = first_gone, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
"""

# KEYS: lease, declarations, then the state and the history of each upstream.
# ARGV: the caller's lease; then of each upstream: its name; a state; the number of moments to keep; a moment.
# Empty values are not written. The number is approximate, because an exact cap costs Redis more.
# The answer has a 1 for each upstream, or the error of its write. A tick may write about an upstream that has
# just been deleted: then nothing is saved. READONLY is the answer about all of them: this Redis is a replica
# by now.
KEEP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local function failure(answer)
    return type(answer) == 'table' and answer.err
end
local answers = {}
for i = 1, #KEYS / 2 - 1 do
    local upstream, state, most, moment = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], ARGV[4 * i + 1]
    local written = 1
    if redis.call('HEXISTS', KEYS[2], upstream) == 1 then
        if state ~= '' then written = redis.pcall('SET', KEYS[2 * i + 1], state) end
        if moment ~= '' and not failure(written) then
            written = redis.pcall('XADD', KEYS[2 * i + 2], 'MAXLEN', '~', most, '*', 'm', moment)
        end
    end
    local why = failure(written)
    if why and string.find(why, '^READONLY') then return written end
    answers[i] = why and written or 1
end
return answers
"""

# KEYS: history. ARGV: milliseconds, by Redis's clock; the largest number of moments.
HISTORY = """
local now = redis.call('TIME')
local since = math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[1])
return redis.call('XREVRANGE', KEYS[1], '+', string.format('%.0f', since), 'COUNT', ARGV[2])
"""
