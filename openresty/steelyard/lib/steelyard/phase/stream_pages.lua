--- The status page and the metrics of stream {}, for curl and Prometheus.
--
-- http {} cannot read the memory of stream {}, and stream {} has no HTTP. So a server of its own reads one request,
-- answers in HTTP/1.0 and closes the connection.

local clock = require "steelyard.io.clock"
local problem = require "steelyard.core.problem"
local status_pages = require "steelyard.phase.status_pages"
local worker = require "steelyard.phase.worker"

-- The largest request; Prometheus sends about 500 bytes.
local MAX_BYTES = 8192
local TIMEOUT_MS = 5000

local _M = {}


--- Read the request's line and headers, in lower case; nil if they do not come whole.
local function read_head()
    local socket = assert(ngx.req.socket())
    socket:settimeout(TIMEOUT_MS)
    local text, began = "", clock.monotonic()
    while #text < MAX_BYTES and clock.monotonic() - began < TIMEOUT_MS / 1000 do
        local piece = socket:receiveany(MAX_BYTES)
        if not piece then
            return nil
        end
        text = text .. string.lower(piece)
        if string.find(text, "\r\n\r\n", 1, true) then
            return text
        end
    end
end


local function head(status, content_type)
    ngx.print("HTTP/1.0 ", status, " ", problem.TITLES[status] or "OK", "\r\nContent-Type: ", content_type,
              "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")
end


local function refuse(status, detail)
    head(status, problem.CONTENT_TYPE)
    ngx.say(problem.encode(status, detail))
end


--- Whether the headers show that a proxy passed the request on.
local function proxied(text)
    return string.find(text, "\r\nx-forwarded-for:", 1, true) or string.find(text, "\r\nforwarded:", 1, true)
           or string.find(text, "\r\nvia:", 1, true)
end


--- content_by_lua of a server for the two pages: /steelyard/status and /steelyard/metrics.
function _M.pages()
    local text = read_head()
    if not text then
        return refuse(400, "no whole HTTP request came")
    end
    local method, path = string.match(text, "^(%l+) ([^ ?\r]+)")
    local page = status_pages.PAGES[path or ""]
    local stranger = not worker.broken and status_pages.stranger(ngx.var.remote_addr, proxied(text))
    if worker.broken then
        return refuse(503, worker.broken)
    elseif stranger then
        return refuse(403, stranger)
    elseif method ~= "get" then
        return refuse(405, "GET is allowed here")
    elseif not page then
        return refuse(404, "there are /steelyard/status and /steelyard/metrics")
    end
    head(200, page.content_type)
    local breathe = clock.breather()
    page.write(function(piece)
        if not ngx.print(piece) or not ngx.flush(true) then
            ngx.exit(ngx.ERROR) -- the client has left
        end
        breathe()
    end, breathe)
end


return _M
