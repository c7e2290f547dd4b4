# web.pl - an HTTP server for specs, in what every Debian has: web.pl DIRECTORY
# It says its port in one line and answers until standard input ends: the files below DIRECTORY, 404 for others;
# "garbage" in the address gives bytes that are no file of anybody's, "never" no answer at all.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

$| = 1;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16) or die "$!";
print $server->sockport, "\n";

sub answer {
    my ($client, $address) = @_;
    return if $address =~ /never/;
    my $body = $address =~ /garbage/ ? "no file of yours\n" x 100 : undef;
    if (!defined $body && open my $file, '<:raw', $ARGV[0] . $address) {
        local $/;
        $body = <$file>;
    }
    my $status = defined $body ? '200 OK' : '404 Not Found';
    $body //= '';
    print $client "HTTP/1.1 $status\r\nContent-Length: ", length $body, "\r\nConnection: close\r\n\r\n", $body;
    close $client;
}

my $waiting = IO::Select->new($server, \*STDIN);
my @held;
while (1) {
    for my $ready ($waiting->can_read) {
        exit if $ready == \*STDIN;
        my $client = $server->accept or next;
        push @held, $client;
        my $address;
        while (defined(my $line = <$client>)) {
            $address //= $1 if $line =~ m{^GET (/\S*)};
            last if $line =~ /^\r?$/;
        }
        answer($client, $address // '/never');
    }
}
