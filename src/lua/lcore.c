/*
 * lcore.c - luaopen_perfev_core: registers every class and function of the core.
 *
 * Opening the module opens nothing else, prints nothing, sets no global.
 */
#include <lauxlib.h>

#include "lua/aggregate/laggregator.h"
#include "lua/aggregate/laggregator_keys.h"
#include "lua/aggregate/laggregator_pack.h"
#include "lua/aggregate/laggregator_values.h"
#include "lua/aggregate/lcondition.h"
#include "lua/aggregate/lsink.h"
#include "lua/aggregate/lspan.h"
#include "lua/base/lblock.h"
#include "lua/base/lerror.h"
#include "lua/base/lexit.h"
#include "lua/engine/lchild.h"
#include "lua/engine/lcounter.h"
#include "lua/engine/lsession.h"
#include "lua/event/lattr.h"
#include "lua/hooks/lfile.h"
#include "lua/hooks/lhooks.h"
#include "lua/hooks/lsystem.h"
#include "lua/perfdata/lpayload.h"
#include "lua/perfdata/lreader.h"
#include "lua/perfdata/lwriter.h"
#include "lua/record/largs.h"
#include "lua/record/laux.h"
#include "lua/record/ldecoder.h"
#include "lua/record/lfield.h"
#include "lua/record/lrecord.h"
#include "lua/record/ltext_line.h"
#include "lua/symbol/lkallsyms.h"
#include "lua/symbol/lperf_map.h"
#include "lua/symbol/lstack.h"
#include "lua/symbol/lstack_table.h"
#include "lua/profile/lstack_tree.h"

int luaopen_perfev_core(lua_State *L);

__attribute__((visibility("default"))) int luaopen_perfev_core(lua_State *L)
{
	lua_newtable(L);
	l_error_register(L);
	l_system_register(L);
	lua_pushliteral(L, PEV_VERSION);
	lua_setfield(L, -2, "version");
	l_block_register(L);
	l_attr_register(L);
	l_hooks_register(L);
	l_args_register(L);
	l_payload_register(L);
	l_agg_register(L);
	l_agg_keys_register(L);
	l_agg_values_register(L);
	l_agg_pack_register(L);
	l_sink_register(L);
	l_span_register(L);
	l_text_line_register(L);
	l_condition_register(L);
	l_aux_register(L);
	l_kallsyms_register(L);
	l_perf_map_register(L);
	l_file_register(L);
	l_stack_table_register(L);
	l_stack_register(L);
	l_stack_tree_register(L);
	l_field_register(L);
	l_view_register(L);
	l_decoder_register(L);
	l_child_register(L);
	l_counter_register(L);
	l_reader_register(L);
	l_writer_register(L);
	l_session_register(L);
	l_exit_register(L);
	return 1;
}
