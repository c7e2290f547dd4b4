# http_client.pl - clients for the specs of perfl --http: http_client.pl ADDRESS WHAT [ARGUMENT...]
# ADDRESS is a port of 127.0.0.1 or the path of a Unix socket. WHAT:
#   send TEXT        sends the text and prints everything up to the end of the connection
#   trickle TEXT     prints "connected", sends a byte of the text each 100 ms, and later x, for ever; prints "cut" when
#                    the server ends the connection
#   leave TEXT       sends the text, and closes the connection
#   hold TEXT        sends the text and reads nothing until it is killed
#   flood OPEN MORE  opens OPEN connections that send nothing and MORE that must be refused; prints how many were. Then
#                    closes them and requests /healthz until it is answered with 200
use strict;
use warnings;
use IO::Socket::INET;
use IO::Socket::UNIX;

$| = 1;
alarm 120;
$SIG{PIPE} = 'IGNORE';
my ($address, $what, @arguments) = @ARGV;

sub connected {
    my $socket = $address =~ /^\d+$/ ? IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $address)
        : IO::Socket::UNIX->new(Peer => $address);
    die "$address: $!" unless $socket;
    $socket->autoflush(1);
    return $socket;
}

# Up to the end of the connection.
sub rest {
    my ($socket) = @_;
    my ($all, $got) = ('', '');
    while (sysread $socket, $got, 65536) { $all .= $got }
    return $all;
}

sub request {
    my ($text) = @_;
    my $socket = connected();
    syswrite $socket, $text;
    return rest($socket);
}

sub send_text { print request($arguments[0] =~ s/\\r/\r/gr =~ s/\\n/\n/gr) }

sub trickle {
    my $socket = connected();
    my @bytes = split //, $arguments[0];
    print "connected\n";
    while (1) {
        my $ready = '';
        vec($ready, fileno $socket, 1) = 1;
        if (select $ready, undef, undef, 0.1) {
            last unless sysread $socket, my $got, 4096;
        }
        last unless syswrite $socket, shift @bytes // 'x';
    }
    print "cut\n";
}

sub leave {
    my $socket = connected();
    syswrite $socket, $arguments[0] =~ s/\\r/\r/gr =~ s/\\n/\n/gr;
    close $socket;
}

sub hold {
    my $socket = connected();
    syswrite $socket, $arguments[0] =~ s/\\r/\r/gr =~ s/\\n/\n/gr;
    sleep 120;
}

sub flood {
    my ($open, $more) = @arguments;
    my @held = map { connected() } 1 .. $open;
    my $refused = 0;
    for (1 .. $more) {
        $refused++ if request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") =~ m{^HTTP/1.1 503 .*\nRetry-After: }s;
    }
    print "$refused refused\n";
    close $_ for @held;
    my $answer = '';
    $answer = request("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        until $answer =~ m{^HTTP/1.1 200 };
    print "served\n";
}

my %ways = (send => \&send_text, trickle => \&trickle, leave => \&leave, hold => \&hold, flood => \&flood);
$ways{$what}->();
