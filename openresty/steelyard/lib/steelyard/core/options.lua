--- The options of init_worker: checked once at the start, with defaults filled in. Pure.
--
-- Those of an upstream are in core/upstream_options.

local address = require "steelyard.core.address"
local signed = require "steelyard.core.signed"
local upstream_options = require "steelyard.core.upstream_options"
local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local NUMBERS = {
    { "fetch_interval_s", validate.SECONDS, 0.05, 60, 0.5 }, -- a new table is served within this and 0.2 s
    { "report_interval_s", validate.SECONDS, 0.1, 60, 1 },   -- the controller's tick
    { "hold_s", validate.SECONDS, 0, 86400, 60 },            -- a restart of the control plane is no reason to move
    { "drift_s", validate.SECONDS, 1, 86400, 300 },          -- slow enough to be noticed before it matters
}

local KNOWN = "memcached, controller, controller_token, key, state_dir, lb, zone, upstreams, any_upstream, dict, "
              .. "fetch_interval_s, report_interval_s, hold_s, drift_s, allow, share_in_flight"

-- One or two fetches may get lost without a change of rung.
local FRESH_S, FRESH_FETCHES = 3, 3

-- Of a core. With a dozen servers that is an exchange each 5 ms.
local SHARE_IN_FLIGHT = { { "cpu_share", validate.NUMBER, 0.001, 0.5, 0.02 } }

-- Shorter ones can be guessed.
local MIN_KEY_BYTES = 16

-- Many servers take no more than 8 kB of headers; tokens have some 50 bytes.
local MAX_TOKEN_BYTES = 1024

local bad, list, right = validate.bad, validate.list, validate.right

local _M = {}


local function memcached_servers(options)
    local remedy = 'write it as memcached = {"127.0.0.1:11211"}'
    local servers = {}
    for i, text in ipairs(list(options, "memcached", "memcached", remedy)) do
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


local function controllers(options)
    local remedy = 'write it as controller = {"http://10.0.0.5:8081"}'
    local servers = {}
    if options.controller == nil then
        return servers
    end
    for i, url in ipairs(list(options, "controller", "controller", remedy)) do
        local host, port, path = string.match(tostring(url), "^http://([%w.-]+):?(%d*)(/?[%w/._-]*)$")
        if not host then
            host, port, path = string.match(tostring(url), "^http://(%[[%x:.]+%]):?(%d*)(/?[%w/._-]*)$")
        end
        if not host then
            bad("controller", "has " .. tostring(url) .. ", which is no http:// URL", remedy)
        end
        servers[i] = {
            host = host, port = tonumber(port) or 80, name = url,
            path_prefix = string.gsub(path, "/$", ""),
        }
    end
    return servers
end


local function names_and_upstreams(options)
    local remedy = 'write it as upstreams = { web = { bootstrap = {"10.0.0.11:80"} } }'
    local upstreams, names = {}, {}
    if options.upstreams == nil and options.any_upstream then
        return names, upstreams
    end
    for name, settings in pairs(list(options, "upstreams", "upstreams", remedy)) do
        if not wire.is_name(name) then
            bad("upstreams", "has " .. tostring(name) .. ", which is no name", remedy)
        end
        if type(settings) ~= "table" then
            bad("upstreams." .. name, "must be a table", remedy)
        end
        upstreams[name] = upstream_options.check("upstreams." .. name .. ".", settings)
        names[#names + 1] = name
    end
    if #names == 0 then
        bad("upstreams", "is empty", remedy)
    end
    table.sort(names)
    return names, upstreams
end


--- The settings of all upstreams that the controller's list has beside those of nginx.conf; nil: none is served.
local function any_upstream(given)
    if given == nil then
        return nil
    end
    if type(given) ~= "table" then
        bad("any_upstream", "must be a table", "write it as any_upstream = {}, or with the options of an upstream")
    end
    for _, name in ipairs({ "bootstrap", "shards", "host" }) do
        if given[name] ~= nil then
            bad("any_upstream." .. name, "is set, and it is of one upstream", "leave it out, or name that upstream in "
                .. "the option `upstreams`")
        end
    end
    return upstream_options.check("any_upstream.", given)
end


local function allowed(options)
    local networks, remedy = options.allow or {}, 'write it as allow = {"10.0.0.0/8", "::1"}'
    if type(networks) ~= "table" then
        bad("allow", "must be a list", remedy)
    end
    for _, network in ipairs(networks) do
        if type(network) ~= "string" or not address.network(network) then
            bad("allow", "has " .. tostring(network), remedy)
        end
    end
    return networks
end


--- How this nginx tells others what it has in flight; nil: it does not.
local function share_in_flight(given)
    if given == nil or given == false then
        return nil
    end
    return validate.table_of_numbers(given == true and {} or given, SHARE_IN_FLIGHT, "share_in_flight",
                                     "must be true, false or a table",
                                     "write it as share_in_flight = true, or { cpu_share = 0.02 }")
end


--- Check the options and fill in the defaults; raises with option and remedy.
function _M.check(options)
    if type(options) ~= "table" then
        error("steelyard.init_worker: needs a table of options: " .. KNOWN, 0)
    end
    validate.only_known(options, KNOWN, "")
    if not wire.is_name(options.lb) then
        bad("lb", "must name this load balancer", 'write it as lb = "edge-1", and differently on each machine')
    end
    right("", options, "zone", wire.is_name, "is %s", 'write it as zone = "eu-1a", as the servers near it have it')
    if options.key ~= nil and (type(options.key) ~= "string" or #options.key < MIN_KEY_BYTES) then
        bad("key", "must be a string of at least " .. MIN_KEY_BYTES .. " bytes",
            'write it as key = os.getenv("STEELYARD_KEY"), with `env STEELYARD_KEY;` in nginx.conf')
    end
    if options.key and string.find(options.key, "^lb%.") and not signed.load_balancer_keys(options.key) then
        bad("key", "begins as a load balancer's key does, and is not whole",
            "write it as `steelyard keys lb NAME` prints it")
    end
    right("", options, "state_dir", validate.text("^/"), "must be an absolute path",
          'write it as state_dir = "/var/lib/steelyard"')
    -- What the controllers want of readers. It goes into a header unchanged; no error message shows it.
    right("", options, "controller_token", validate.text("^[!-~]+$", MAX_TOKEN_BYTES),
          "must be a string of 1.." .. MAX_TOKEN_BYTES .. " visible ASCII characters", 'write it as controller_token = '
          .. 'os.getenv("STEELYARD_TOKEN"), with `env STEELYARD_TOKEN;` in nginx.conf')
    local names, upstreams = names_and_upstreams(options)
    local numbers = validate.numbers(options, NUMBERS, "")
    return {
        memcached = memcached_servers(options), controller = controllers(options),
        controller_token = options.controller_token,
        key = options.key, state_dir = options.state_dir, lb = options.lb, zone = options.zone,
        -- What is served now; with any_upstream more than what nginx.conf declares.
        upstreams = upstreams, names = names, declared = upstreams, any_upstream = any_upstream(options.any_upstream),
        allow = allowed(options), share_in_flight = share_in_flight(options.share_in_flight),
        dict = options.dict or "steelyard",
        fetch_interval_s = numbers.fetch_interval_s, report_interval_s = numbers.report_interval_s,
        limits = {
            fresh_s = math.max(FRESH_S, FRESH_FETCHES * numbers.fetch_interval_s),
            hold_s = numbers.hold_s, drift_s = numbers.drift_s,
        },
    }
end


return _M
