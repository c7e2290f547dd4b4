/*
 * lhttp_client.c - the module perfev.http_client: sends POST requests by libcurl, several at once,
 * without blocking.
 *
 * A shared object of its own, loaded on first use by perfl collect. A client owns its requests; a
 * request keeps a copy of its body until it is done. Certificates are always verified, only http
 * and https are used, redirects are not followed, and of a response RESPONSE_KEPT bytes are kept.
 */
#include <curl/curl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lua/base/lclass.h"

#define TYPENAME "perfev.http_client"
#define RESPONSE_KEPT 65536
#define RESPONSE_MAX (1 << 20) /* bytes; a server that sends more is given up */

int luaopen_perfev_http_client(lua_State *L);

/* A request, from post() until done() has returned its result. */
struct request {
	struct request *next;
	CURL *easy;
	struct curl_slist *headers;
	lua_Integer id;
	char *body; /* of the response */
	size_t len, received;
	CURLcode result;
	bool is_done;
	char error[CURL_ERROR_SIZE];
};

struct client {
	CURLM *multi; /* NULL once closed */
	struct request *requests;
	char *ca, *cert, *key; /* files, or NULL */
	long connect_ms, total_ms;
};

static struct client *check_client(lua_State *L)
{
	struct client *self = luaL_checkudata(L, 1, TYPENAME);

	if (!self->multi)
		luaL_error(L, "the HTTP client is closed");
	return self;
}

static size_t keep_response(char *bytes, size_t one, size_t nr, void *arg)
{
	struct request *request = arg;
	size_t len = one * nr, room = RESPONSE_KEPT - request->len;
	size_t kept = len < room ? len : room;

	request->received += len;
	if (request->received > RESPONSE_MAX)
		return 0;
	memcpy(request->body + request->len, bytes, kept);
	request->len += kept;
	return len;
}

static void free_request(struct client *self, struct request *request)
{
	if (request->easy) {
		curl_multi_remove_handle(self->multi, request->easy);
		curl_easy_cleanup(request->easy);
	}
	curl_slist_free_all(request->headers);
	free(request->body);
	free(request);
}

/* Raises unless the list at idx has only texts. */
static lua_Integer check_headers(lua_State *L, int idx)
{
	lua_Integer nr;

	luaL_checktype(L, idx, LUA_TTABLE);
	nr = (lua_Integer)lua_rawlen(L, idx);
	for (lua_Integer i = 1; i <= nr; i++) {
		luaL_argcheck(L, lua_rawgeti(L, idx, i) == LUA_TSTRING, idx, "texts expected");
		lua_pop(L, 1);
	}
	return nr;
}

/* The texts of the list at idx, which is checked. False without memory. */
static bool add_headers(lua_State *L, int idx, lua_Integer nr, struct request *request)
{
	for (lua_Integer i = 1; i <= nr; i++) {
		struct curl_slist *longer;

		lua_rawgeti(L, idx, i);
		longer = curl_slist_append(request->headers, lua_tostring(L, -1));
		lua_pop(L, 1);
		if (!longer)
			return false;
		request->headers = longer;
	}
	return true;
}

/* Sets an option; the first failure stays in *rc. */
#define SET(option, value)                                                                         \
	do {                                                                                       \
		if (rc == CURLE_OK)                                                                \
			rc = curl_easy_setopt(request->easy, (option), (value));                   \
	} while (0)

static CURLcode set_up(const struct client *self, struct request *request, const char *url,
		       const char *body, size_t len)
{
	CURLcode rc = CURLE_OK;

	SET(CURLOPT_URL, url);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, self->connect_ms);
	SET(CURLOPT_TIMEOUT_MS, self->total_ms);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (self->ca)
		SET(CURLOPT_CAINFO, self->ca);
	if (self->cert)
		SET(CURLOPT_SSLCERT, self->cert);
	if (self->key)
		SET(CURLOPT_SSLKEY, self->key);
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
	SET(CURLOPT_COPYPOSTFIELDS, body);
	SET(CURLOPT_HTTPHEADER, request->headers);
	SET(CURLOPT_ERRORBUFFER, request->error);
	SET(CURLOPT_WRITEFUNCTION, keep_response);
	SET(CURLOPT_WRITEDATA, (void *)request);
	SET(CURLOPT_PRIVATE, (void *)request);
	return rc;
}

/*
 * post(id, url, headers, body) -> true | nil, reason
 * Starts a request; id is an integer, headers a list of "Name: value".
 */
static int l_post(lua_State *L)
{
	struct client *self = check_client(L);
	lua_Integer id = luaL_checkinteger(L, 2);
	const char *url = luaL_checkstring(L, 3), *body, *reason = NULL;
	lua_Integer nr_headers = check_headers(L, 4);
	struct request *request;
	size_t len;

	body = luaL_checklstring(L, 5, &len);
	request = calloc(1, sizeof(*request));
	if (request) {
		request->id = id;
		request->body = malloc(RESPONSE_KEPT);
		request->easy = curl_easy_init();
	}
	if (!request || !request->body || !request->easy ||
	    !add_headers(L, 4, nr_headers, request)) {
		reason = "no memory for a request";
	} else {
		CURLcode rc = set_up(self, request, url, body, len);

		if (rc != CURLE_OK)
			reason = curl_easy_strerror(rc);
		else if (curl_multi_add_handle(self->multi, request->easy) != CURLM_OK)
			reason = "no memory for a request";
	}
	if (reason) {
		if (request)
			free_request(self, request);
		lua_pushnil(L);
		lua_pushstring(L, reason);
		return 2;
	}
	request->next = self->requests;
	self->requests = request;
	lua_pushboolean(L, 1);
	return 1;
}

static void mark_done(struct client *self)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(self->multi, &left))) {
		struct request *request = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&request);
		if (!request)
			continue;
		request->is_done = true;
		request->result = msg->data.result;
	}
}

/*
 * wait(ms, fd or nil) -> true if fd is readable
 * Transfers, and waits until a request makes progress, fd is readable or the time is over.
 */
static int l_wait(lua_State *L)
{
	struct client *self = check_client(L);
	int ms = (int)luaL_checkinteger(L, 2), running;
	int fd = (int)luaL_optinteger(L, 3, -1);
	struct curl_waitfd extra = { .fd = fd, .events = CURL_WAIT_POLLIN };

	curl_multi_perform(self->multi, &running);
	mark_done(self);
	for (struct request *r = self->requests; r; r = r->next) {
		if (r->is_done)
			ms = 0;
	}
	curl_multi_poll(self->multi, &extra, fd >= 0 ? 1 : 0, ms, NULL);
	curl_multi_perform(self->multi, &running);
	mark_done(self);
	lua_pushboolean(L, extra.revents != 0);
	return 1;
}

static void push_result(lua_State *L, const struct request *request)
{
	long status = 0;
	curl_off_t retry_after = 0;

	lua_createtable(L, 0, 4);
	lua_pushinteger(L, request->id);
	lua_setfield(L, -2, "id");
	if (request->result != CURLE_OK) {
		lua_pushstring(L, request->error[0] ? request->error :
						      curl_easy_strerror(request->result));
		lua_setfield(L, -2, "error");
		return;
	}
	curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &retry_after);
	lua_pushinteger(L, status);
	lua_setfield(L, -2, "status");
	lua_pushlstring(L, request->body, request->len);
	lua_setfield(L, -2, "body");
	if (retry_after > 0) {
		lua_pushinteger(L, (lua_Integer)retry_after);
		lua_setfield(L, -2, "retry_after");
	}
}

/* done() -> { id=, status=, body=, retry_after= (s) or error= } of a request that is done | nil */
static int l_done(lua_State *L)
{
	struct client *self = check_client(L);
	struct request **at = &self->requests, *request;

	while (*at && !(*at)->is_done)
		at = &(*at)->next;
	request = *at;
	if (!request)
		return 0;
	push_result(L, request);
	*at = request->next;
	free_request(self, request);
	return 1;
}

/* active() -> the number of requests whose result done() has not returned */
static int l_active(lua_State *L)
{
	lua_Integer nr = 0;

	for (struct request *r = check_client(L)->requests; r; r = r->next)
		nr++;
	lua_pushinteger(L, nr);
	return 1;
}

/* Aborts the requests; a second call does nothing. */
static int l_close(lua_State *L)
{
	struct client *self = luaL_checkudata(L, 1, TYPENAME);

	while (self->requests) {
		struct request *request = self->requests;

		self->requests = request->next;
		free_request(self, request);
	}
	if (self->multi)
		curl_multi_cleanup(self->multi);
	free(self->ca);
	free(self->cert);
	free(self->key);
	self->multi = NULL;
	self->ca = self->cert = self->key = NULL;
	return 0;
}

/* Copies the text of a field of the table at index 1; false without memory. */
static bool copy_field(lua_State *L, const char *name, char **copy)
{
	const char *text;

	lua_getfield(L, 1, name);
	text = lua_tostring(L, -1);
	*copy = text ? strdup(text) : NULL;
	lua_pop(L, 1);
	return !text || *copy;
}

static long number_field(lua_State *L, const char *name, long preset)
{
	long number;

	lua_getfield(L, 1, name);
	number = (long)luaL_optinteger(L, -1, preset);
	lua_pop(L, 1);
	return number;
}

/*
 * new { ca=, cert=, key= (files, PEM), connect_ms= (5000), total_ms= (30000) } -> client
 * Without ca, the system's certificates are trusted.
 */
static int l_new(lua_State *L)
{
	struct client *self;

	luaL_checktype(L, 1, LUA_TTABLE);
	self = lua_newuserdatauv(L, sizeof(*self), 0);
	memset(self, 0, sizeof(*self));
	luaL_setmetatable(L, TYPENAME);
	self->connect_ms = number_field(L, "connect_ms", 5000);
	self->total_ms = number_field(L, "total_ms", 30000);
	self->multi = curl_multi_init();
	if (!self->multi || !copy_field(L, "ca", &self->ca) ||
	    !copy_field(L, "cert", &self->cert) || !copy_field(L, "key", &self->key))
		return luaL_error(L, "no memory for an HTTP client");
	return 1;
}

static const luaL_Reg methods[] = {
	{ "active",  l_active },
	{ "close",   l_close },
	{ "done",    l_done },
	{ "post",    l_post },
	{ "wait",    l_wait },
	{ "__close", l_close },
	{ NULL,      NULL },
};

/* { new = function } */
__attribute__((visibility("default"))) int luaopen_perfev_http_client(lua_State *L)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return luaL_error(L, "libcurl cannot be initialised");
	l_class(L, TYPENAME, methods, l_close);
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, l_new);
	lua_setfield(L, -2, "new");
	return 1;
}
