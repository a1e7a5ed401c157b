--- A page for few readers: who may read it, how they must ask, and long answers
-- sent in pieces, so that requests are served between.

local allow = require "steelyard.core.allow"
local clock = require "steelyard.io.clock"
local problem = require "steelyard.core.problem"
local worker = require "steelyard.phase.worker"

-- A request that arrives while a page is made waits for one slice at most.
local SLICE_S, PAUSE_S = 0.001, 0.001


local function refuse(status, detail)
    ngx.status = status
    ngx.header["Content-Type"] = problem.CONTENT_TYPE
    ngx.say(problem.encode(status, detail))
    return true
end


--- Tell whether a proxy says that it passed the request on. It is believed in this alone, which takes a right and
-- lends none.
local function proxied()
    return ngx.var.http_x_forwarded_for or ngx.var.http_forwarded or ngx.var.http_via
end


--- Refuse whom the page is not for, and what it cannot answer; tells whether it did.
local function refused()
    local client, method = ngx.var.remote_addr, ngx.req.get_method()
    if worker.broken then
        return refuse(503, worker.broken)
    end
    if not allow.allows(client, worker.options.allow, proxied()) then
        local who = proxied() and " came through a proxy, and is not" or " is neither loopback nor"
        return refuse(403, client .. who .. " in the option `allow` of init_worker")
    end
    if method ~= "GET" and method ~= "HEAD" then
        ngx.header["Allow"] = "GET, HEAD"
        return refuse(405, method .. " is not allowed here; GET is")
    end
    return false
end


--- Make the content handler of a page.
-- @param write function(send, breathe): calls send(text) piece by piece, and
--              breathe() in longer work between; both may serve requests
return function(content_type, write)
    return function()
        if refused() then
            return
        end
        ngx.header["Content-Type"] = content_type
        ngx.header["Cache-Control"] = "no-store"
        if ngx.req.get_method() == "HEAD" then
            return ngx.send_headers()
        end
        local breathe = clock.breather(SLICE_S, PAUSE_S)
        write(function(text)
            -- Waits for a slow reader, so no more than a piece is ever held for it. What goes to an HTTP/1.0 client
            -- is held whole by nginx, which has to count it first; flush fails there.
            -- nginx takes HTTP/1.9 too, for which ngx_lua has no number.
            local version = ngx.req.http_version() or 1.1
            if not ngx.print(text) or (version > 1.0 and not ngx.flush(true)) then
                ngx.exit(ngx.ERROR) -- who asked is gone
            end
            breathe()
        end, breathe)
    end
end
