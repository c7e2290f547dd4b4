# store.pl - a profile store for specs, in what every Debian has: store.pl DIRECTORY PORT ANSWER...
# It says its port in one line and answers until standard input ends. Each request gets the next ANSWER, the last one
# for ever: a status ("200", "503", "503+2" with Retry-After: 2), "hang" (no answer), "close" (the connection ends after
# half of the request), "half" (it ends within the answer), "body:FILE" (200 with the bytes of that file).
# DIRECTORY/N.head and N.body are the request number N, from 1.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

$| = 1;
my ($dir, $port, @answers) = @ARGV;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1,
    Listen => 64) or die "$!";
print $server->sockport, "\n";

sub save {
    my ($path, $bytes) = @_;
    open my $file, '>:raw', "$path.new" or die "$!";
    print $file $bytes;
    close $file;
    rename "$path.new", $path;
}

sub answer {
    my ($client, $answer) = @_;
    my $body = "";
    my $status = "200 OK";
    my $more = "";
    if ($answer =~ /^body:(.*)/) {
        open my $file, '<:raw', $1 or die "$!";
        local $/;
        $body = <$file>;
    } elsif ($answer =~ /^(\d+)(?:\+(\d+))?$/) {
        $status = "$1 Answer";
        $more = "Retry-After: $2\r\n" if $2;
        $body = "status $1\nmore\n" if $1 != 200;
    }
    my $length = length($body) + ($answer eq "half" ? 100 : 0);
    print $client "HTTP/1.1 $status\r\nContent-Length: $length\r\n$more\r\n", $body;
    return $answer ne "half";
}

my $waiting = IO::Select->new($server, \*STDIN);
my %input;
my $nr = 0;
my @held;
while (1) {
    for my $ready ($waiting->can_read) {
        exit if $ready == \*STDIN;
        if ($ready == $server) {
            my $client = $server->accept or next;
            $waiting->add($client);
            $input{$client} = "";
            next;
        }
        my $got = sysread $ready, $input{$ready}, 65536, length $input{$ready};
        my $text = $input{$ready};
        my $end = index $text, "\r\n\r\n";
        my $length = $end >= 0 && $text =~ /^content-length: *(\d+)/im ? $1 : 0;
        my $is_whole = $end >= 0 && length $text >= $end + 4 + $length;
        my $is_early = $got && $end >= 0 && $answers[0] eq "close";
        if (!$got || $is_early) {
            shift @answers if $is_early && @answers > 1;
            $waiting->remove($ready);
            close $ready;
            next;
        }
        next unless $is_whole;
        $nr++;
        save("$dir/$nr.body", substr $text, $end + 4, $length);
        save("$dir/$nr.head", substr $text, 0, $end + 2);
        $input{$ready} = "";
        my $answer = @answers > 1 ? shift @answers : $answers[0];
        next if $answer eq "hang";
        next if answer($ready, $answer);
        $waiting->remove($ready);
        close $ready;
    }
}
