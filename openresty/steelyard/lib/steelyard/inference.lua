--- Inference engines behind nginx: what an upstream's options `cost`, `cost_at_end` and `hash_key` are given, and the
-- line that reads answers (docs/inference.md).
--
-- A request's body is read once, where nginx has it whole and it is no larger than MOST_BODY: of another one the
-- length alone counts. Nothing is changed, held back or refused; what cannot be read counts as a usual request.

local inference = require "steelyard.core.inference"

local ngx = ngx

-- 128,000 tokens. It takes a worker 0.8 ms to read them.
local MOST_BODY = 524288

local lately = {}

local _M = {}


--- The request's body; nil where nginx has not read it, or it is too large. What did not fit into
-- client_body_buffer_size is in a file, written a moment ago, which has a name only where Lua had it read (limit()).
local function body_of(var)
    local body, path = var.request_body, var.request_body_file
    local file = not body and path and io.open(path, "rb")
    if file then
        body = file:read(MOST_BODY + 1)
        file:close()
    end
    return body and #body <= MOST_BODY and body or nil
end


--- What is known of the request, looked up once.
local function request()
    local ctx = ngx.ctx
    local known = ctx.steelyard_inference
    if not known then
        local var = ngx.var
        local body = body_of(var)
        local bytes = body and #body or tonumber(var.content_length) or 0
        known = { request = body and inference.request(body) or not body and bytes > 0 and {}, bytes = bytes }
        local prefix = known.request and known.request.prefix
        if prefix then
            known.request.prefix = ngx.crc32_long(prefix) -- it may be long, and an answer take minutes
        end
        ctx.steelyard_inference = known
    end
    return known
end


--- hash_key: the start of the prompt; nil where there is none.
function _M.prefix()
    local known = request().request
    return known and known.prefix
end


--- cost: the tokens that the request is likely to take; nil where it is no JSON.
function _M.cost()
    local known = request()
    return known.request and inference.estimate(lately, known.request, known.bytes)
end


--- body_filter_by_lua: read an answer as it passes.
function _M.answer()
    local known = ngx.status == 200 and request()
    if known and known.request then
        known.answer, known.ended = known.answer or { tail = "\n", events = 0 }, ngx.arg[2]
        inference.read(known.answer, ngx.arg[1])
    end
end


--- cost_at_end: what the answer says that it took; nil where it says nothing.
function _M.used()
    local known = request()
    local cost, output = nil, nil
    if known.answer then
        cost, output = inference.used(known.answer, known.bytes)
    end
    if cost and known.ended then
        inference.learn(lately, known.request.model, output)
    end
    return cost
end


return _M
