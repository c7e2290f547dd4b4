# perf script -s count.pl: as many calls as there are, the least that perf's Perl engine can be asked for.
my %calls;

sub raw_syscalls::sys_enter {
	my ($event_name, $context, $cpu, $secs, $nsecs, $pid, $comm, $callchain, $id) = @_;
	$calls{$id}++;
}

sub trace_end {
	my $sum = 0;
	$sum += $_ for values %calls;
	print "$sum\n";
}

1;
