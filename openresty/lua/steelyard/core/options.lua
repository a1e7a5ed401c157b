--- The options of init_worker: checked once, so that nothing later has to. Pure.
--
-- A bad option is the caller's bug: an error that names it and the remedy.

local address = require "steelyard.core.address"
local allow = require "steelyard.core.allow"
local wire = require "steelyard.core.wire"

local DEFAULTS = {
    dict = "steelyard",     -- the lua_shared_dict
    fetch_interval_s = 0.5, -- a new table is served within this and 0.2 s
    report_interval_s = 1,  -- the controller's tick
    hold_s = 60,            -- a restart of the control plane is no reason to move
    drift_s = 300,          -- slow enough to be noticed before it matters
}

local KNOWN = "memcached, lb, upstreams, dict, fetch_interval_s, report_interval_s, hold_s, drift_s, allow"

-- One or two lost fetches are no event.
local FRESH_S, FRESH_FETCHES = 3, 3

local _M = {}


local function bad(option, problem, remedy)
    error("steelyard.init_worker: option `" .. option .. "` " .. problem .. "; " .. remedy, 0)
end


local function list(options, option, remedy)
    local value = options[option]
    if type(value) ~= "table" then
        bad(option, "must be a list", remedy)
    end
    return value
end


local function seconds(options, option, low, high)
    local value = options[option] or DEFAULTS[option]
    if type(value) ~= "number" or not (value >= low and value <= high) then
        bad(option, "must be a number of seconds within " .. low .. ".." .. high,
            "leave it out for " .. DEFAULTS[option])
    end
    return value
end


local function memcached_servers(options)
    local remedy = 'write it as memcached = {"127.0.0.1:11211"}'
    local servers = {}
    for i, text in ipairs(list(options, "memcached", remedy)) do
        local host, port = string.match(tostring(text), "^(.+):(%d+)$")
        if not host then
            bad("memcached", "has " .. tostring(text) .. ", which is no host:port", remedy)
        end
        servers[i] = { host = host, port = tonumber(port), name = text }
    end
    if #servers == 0 then
        bad("memcached", "is empty", remedy)
    end
    return servers
end


local function bootstrap_peers(upstream, servers)
    local option = "upstreams." .. upstream .. ".bootstrap"
    local remedy = 'write it as bootstrap = {"10.0.0.11:80"}, '
                   .. 'or {{ id = "server-1", address = "10.0.0.11:80", weight = 2 }}'
    if type(servers) ~= "table" then
        bad(option, "must be a list", remedy)
    end
    local peers, known = {}, {}
    for i, server in ipairs(servers) do
        local row = type(server) == "table" and server or { address = server }
        local text, weight = tostring(row.address), row.weight or 1
        local ip, port = address.split(text)
        if not ip then
            bad(option, "is wrong: " .. port, remedy)
        end
        if type(weight) ~= "number" or weight < 1 or weight > 1000000 or weight ~= math.floor(weight) then
            bad(option, "has the weight " .. tostring(weight), "a weight is a whole number within 1..1000000")
        end
        local id = row.id or text
        if type(id) ~= "string" or known[id] then
            bad(option, "has the id " .. tostring(id), "an id is a string, and of one server only")
        end
        known[id] = true
        peers[i] = {
            id = id, address = text, ip = ip, port = port,
            weight = weight, baseline = weight, state = "up",
        }
    end
    table.sort(peers, function(a, b) return a.id < b.id end)
    return peers
end


local function upstreams_of(options)
    local remedy = 'write it as upstreams = { web = { bootstrap = {"10.0.0.11:80"} } }'
    local upstreams, names = {}, {}
    for name, settings in pairs(list(options, "upstreams", remedy)) do
        if not wire.is_name(name) then
            bad("upstreams", "has " .. tostring(name) .. ", which is no name", remedy)
        end
        if type(settings) ~= "table" then
            bad("upstreams." .. name, "must be a table", remedy)
        end
        for key in pairs(settings) do
            if key ~= "bootstrap" then
                bad("upstreams." .. name, "has " .. tostring(key) .. ", which is unknown", "it may have: bootstrap")
            end
        end
        upstreams[name] = { bootstrap = bootstrap_peers(name, settings.bootstrap or {}) }
        names[#names + 1] = name
    end
    if #names == 0 then
        bad("upstreams", "is empty", remedy)
    end
    table.sort(names)
    return upstreams, names
end


--- Check the options and fill in the defaults; raises with option and remedy.
function _M.check(options)
    if type(options) ~= "table" then
        error("steelyard.init_worker: needs a table of options: " .. KNOWN, 0)
    end
    local known = {}
    for option in string.gmatch(KNOWN, "[%w_]+") do
        known[option] = true
    end
    for option in pairs(options) do
        if not known[option] then
            bad(tostring(option), "is unknown", "the options are: " .. KNOWN)
        end
    end
    if not wire.is_name(options.lb) then
        bad("lb", "must name this load balancer", 'write it as lb = "edge-1", and differently on each machine')
    end
    local allowed = options.allow or {}
    for _, block in ipairs(type(allowed) == "table" and allowed or { allowed }) do
        if type(allowed) ~= "table" or type(block) ~= "string" or not allow.block(block) then
            bad("allow", "has " .. tostring(block), 'write it as allow = {"10.0.0.0/8", "::1"}')
        end
    end
    local upstreams, names = upstreams_of(options)
    local fetch_interval_s = seconds(options, "fetch_interval_s", 0.05, 60)
    return {
        memcached = memcached_servers(options), lb = options.lb,
        upstreams = upstreams, names = names, allow = allowed,
        dict = options.dict or DEFAULTS.dict,
        fetch_interval_s = fetch_interval_s,
        report_interval_s = seconds(options, "report_interval_s", 0.1, 60),
        limits = {
            fresh_s = math.max(FRESH_S, FRESH_FETCHES * fetch_interval_s),
            hold_s = seconds(options, "hold_s", 0, 86400),
            drift_s = seconds(options, "drift_s", 1, 86400),
        },
    }
end


return _M
