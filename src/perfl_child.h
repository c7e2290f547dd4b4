/*
 * perfl_child.h - Lua functions in child processes; see perfl_child.c.
 */
#pragma once

#include <lua.h>

/* run_child(f, seconds [, closed]); signal_fd: the eventfd of perfl's signals */
int perfl_run_child(lua_State *L, int signal_fd);
/* finish_child(text): ends the child; the parent gets the text */
int perfl_finish_child(lua_State *L);
/* raise(number): sends a signal to this process */
int perfl_raise(lua_State *L);
/* exec_self({ word, ... }): replaces the child by a new perfl */
int perfl_exec_self(lua_State *L);
