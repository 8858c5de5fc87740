package shell_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/shell"
)

// answers are the answers of the servers of the tests to any request, by their names.
var answers = map[string]string{
	"web":       "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nup\n",
	"missing":   "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nX-A: b\r\n\r\nno\n",
	"created":   "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
	"early":     "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nup to the end\n",
	"chunked":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nup\n\r\n0\r\n\r\n",
	"cut":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nup\n",
	"cutchunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nup\n",
	"moved":     "HTTP/1.1 302 Found\r\nLocation: http://web/there\r\nContent-Length: 0\r\n\r\n",
	"loop":      "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
	"gopher":    "HTTP/1.1 302 Found\r\nLocation: gopher://web/x\r\nContent-Length: 0\r\n\r\n",
	"secure":    "HTTP/1.1 301 Moved Permanently\r\nLocation: https://web/\r\nContent-Length: 0\r\n\r\n",
	"unchanged": "HTTP/1.1 304 Not Modified\r\nLocation: http://web\r\n\r\n",
	"permanent": "HTTP/1.1 308 Permanent Redirect\r\nLocation: http://web\r\nContent-Length: 0\r\n\r\n",
	"part":      "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\nup\n",
	"busy":      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nbusy\n",
	"later":     "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
	"dated":     "HTTP/1.1 503 Busy\r\nRetry-After: Sat, 01 Jan 2000 00:00:09 GMT\r\nContent-Length: 0\r\n\r\n",
	"broken":    "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n",
	"empty":     "",
	"text":      "hello\n",
	"malformed": "HTTP/x\r\n\r\n",
	"half":      "HTTP/1.1 200",
}

// network returns a shell in a network of servers: of answers, of "echo", which answers with the request, of "recovers", which is
// busy at first, of "mute", which reads only, of "talks", which writes only, and of "slow", which writes for ever and never ends.
func network(t *testing.T) *shell.Shell {
	var servers sync.WaitGroup
	var recovers atomic.Bool
	t.Cleanup(servers.Wait) // they end with their connections
	serve := func(host string, c net.Conn) {
		defer c.Close()
		if host == "talks" {
			io.WriteString(c, answers["web"])
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil { // the client has gone
			return
		}
		body, _ := io.ReadAll(r.Body)
		switch host {
		case "echo":
			text := fmt.Sprintf("%s %s %s %q %s %q\n", r.Method, r.Host, r.URL, r.Header.Get("User-Agent"), r.Header.Get("Content-Type")+r.Header.Get("X-Z")+r.Header.Get("Range")+r.Header.Get("Authorization"), body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		case "recovers":
			io.WriteString(c, answers[map[bool]string{false: "busy", true: "web"}[recovers.Swap(true)]])
		case "mute":
			io.Copy(io.Discard, c)
		case "slow":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		default:
			io.WriteString(c, answers[host])
		}
	}
	return shell.New(shell.Options{Dial: func(ctx context.Context, _ *runtime.Process, host string, port int32) (io.ReadWriteCloser, error) {
		switch _, ok := answers[host]; {
		case host == "silent": // nobody accepts
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case !ok && !strings.Contains("echo recovers mute talks slow", host):
			return nil, fmt.Errorf("lookup %s: %w", host, shell.ErrUnknownHost)
		case port != 80 && port != 8080:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		client, server := net.Pipe()
		servers.Go(func() { serve(host, server) })
		return client, nil
	}})
}

// TestRequests: wget and curl ask servers in the network of the pods. The messages and exit codes are of busybox 1.37 and of curl 8.
func TestRequests(t *testing.T) {
	const (
		try   = "curl: try 'curl --help' for more information\n"
		begun = "cd /tmp; begin=$(date +%s); "
		ended = "; code=$?; echo $(($(date +%s) - begin)) s; exit $code"
	)
	for _, tt := range []struct {
		script, out, err string
		code             int
	}{
		{"wget -q -O - web", "up\n", "", 0}, {"wget -qO- http://web:8080/a?b", "up\n", "", 0}, {"wget -q web/a/file && cat file && rm file", "up\n", "", 0},
		{"wget web:80 && cat index.html", "up\n", "Connecting to web:80\nsaving to 'index.html'\n'index.html' saved\n", 0},
		{"cd /tmp; wget -q web; wget -q web", "", "wget: can't open 'index.html': File exists\n", 1}, {"cd /tmp; wget -qO f web; wget -qO f chunked; cat f", "up\n", "", 0},
		{"wget -O- early", "up to the end\n", "Connecting to early\nwriting to stdout\nwritten to stdout\n", 0}, {"wget -S -q -O /dev/null missing", "", "  HTTP/1.1 404 Not Found\n  Content-Length: 3\n  X-A: b\nwget: server returned error: HTTP/1.1 404 Not Found\n", 1},
		{"wget --spider web", "", "Connecting to web\nremote file exists\n", 0}, {"wget -q --spider missing", "", "wget: server returned error: HTTP/1.1 404 Not Found\n", 1},
		{"wget -q nope:81/x", "", "wget: bad address 'nope:81'\n", 1}, {"wget -q web:81", "", "wget: can't connect to remote host: Connection refused\n", 1}, {"wget -q https://web", "", "wget: not an http or ftp url: https://web\n", 1},
		{"wget -q --no-check-certificate https://nope", "", "wget: not an http or ftp url: https://nope\n", 1}, {"wget -q secure", "", "wget: not an http or ftp url: https://web/\n", 1}, {"wget -q gopher://web", "", "wget: not an http or ftp url: gopher://web\n", 1}, {"wget http://", "", "wget: bad address 'http://'\n", 1},
		{"wget -q empty", "", "wget: error getting response\n", 1}, {"wget -q text", "", "wget: error getting response\n", 1}, {"wget -qO- cut", "up\n", "wget: connection closed prematurely\n", 1}, {"wget -qO- cutchunk", "up\n", "wget: connection closed prematurely\n", 1},
		{"wget -qO- moved", "up\n", "", 0}, {"wget -q loop", "", "wget: too many redirections\n", 1}, {"wget -qO- -T 5 talks created", "up\n", "", 0},
		{"wget -T 2 -q silent", "", "wget: download timed out\n", 1}, {"wget -T 2 -q mute", "", "wget: download timed out\n", 1}, {"wget -T 2 -qO- slow | wc -c", "1000\n", "", 0},
		{"wget -qO- --header 'X-Z: 1' --header Host:h -U me echo/p?q", "GET h /p?q \"me\" 1 \"\"\n", "", 0}, {"wget -nv -t 3 -qO- --post-data a=b u:p@echo", "POST echo / \"Wget\" application/x-www-form-urlencodedBasic dTpw \"a=b\"\n", "", 0},
		{"wget -Q web 2>&1 | head -n 1", "wget: unrecognized option: Q\n", "", 0}, {"wget --frob web 2>&1 | head -n 1", "wget: unrecognized option '--frob'\n", "", 0}, {"wget -Q web 2>/dev/null", "", "", 1}, {"wget 2>/dev/null", "", "", 1},
		{"wget -T 0 -qO- slow | wc -c", "1000\n", "", 0}, {"timeout 2000 wget -T 0 -q mute", "", "", 124}, {"wget -qO- unchanged", "", "wget: server returned error: HTTP/1.1 304 Not Modified\n", 1}, {"wget -qO- part", "", "wget: server returned error: HTTP/1.1 206 Partial Content\n", 1},
		{"wget -qO- permanent", "up\n", "", 0}, {"wget -q gopher", "", "wget: not an http or ftp url: gopher://web/x\n", 1}, {"wget -q -P /tmp web/a/f && cat /tmp/f", "up\n", "", 0}, {"wget -q -P /tmp/ 'web/a/f?x=1' && cat '/tmp/f?x=1'", "up\n", "", 0}, {"wget -q web/a/ && cat index.html", "up\n", "", 0},
		{"cd /tmp; wget -cq web/f && cat f", "up\n", "", 0}, {"cd /tmp; echo a > f; wget -cq part/f && cat f", "a\nup\n", "", 0}, {"cd /tmp; echo abcdef > f; wget -q -c web/f && cat f", "up\n", "wget: restart failed\n", 0}, {"cd /tmp; echo a > p; wget -cqO p echo && cat p", "GET echo / \"Wget\" bytes=2- \"\"\n", "wget: restart failed\n", 0},
		{"cd /tmp; echo a > f; wget -q -nc web/f", "", "wget: can't open 'f': File exists\n", 1},

		{"curl web", "up\n", "", 0}, {"curl -s missing", "no\n", "", 0}, {"curl -i missing", "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nX-A: b\r\n\r\nno\n", "", 0}, {"curl -I -s http://created/", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", "", 0},
		{"curl -f missing", "", "curl: (22) The requested URL returned error: 404\n", 22}, {"curl -sf missing", "", "", 22}, {"curl -fsS missing", "", "curl: (22) The requested URL returned error: 404\n", 22}, {"curl -f web", "up\n", "", 0},
		{"curl -so /tmp/f -w '%{http_code} %{size_download}%%\\n' missing; cat /tmp/f", "404 3%\nno\n", "", 0}, {"curl -s -o /dev/null -w '%{http_code}\\t%{exitcode}' nope", "000\t6", "", 6}, {"curl -w '%{nope}%{content_type' web", "up\n%{content_type", "curl: unknown --write-out variable: 'nope'\n", 0},
		{"curl nope/x", "", "curl: (6) Could not resolve host: nope\n", 6}, {"curl -s nope", "", "", 6}, {"curl web:81", "", "curl: (7) Failed to connect to web port 81 after 0 ms: Could not connect to server\n", 7},
		{"curl -k https://web", "", "curl: (1) Protocol \"https\" not supported\n", 1}, {"curl -s https://nope", "", "", 1}, {"curl -L secure", "", "curl: (1) Protocol \"https\" not supported (in redirect)\n", 1},
		{"curl -m 2 silent", "", "curl: (28) Connection timed out after 2000 milliseconds\n", 28}, {"curl --connect-timeout 1.5 silent", "", "curl: (28) Connection timed out after 1500 milliseconds\n", 28}, {"curl -m 3 mute", "", "curl: (28) Operation timed out after 3000 milliseconds with 0 bytes received\n", 28},
		{"curl -m 2.5 slow", "xxx", "curl: (28) Operation timed out after 2500 milliseconds with 3 out of 1000 bytes received\n", 28}, {"curl --connect-timeout 1 slow | wc -c", "1000\n", "", 0},
		{"curl empty", "", "curl: (52) Empty reply from server\n", 52}, {"curl text", "", "curl: (1) Received HTTP/0.9 when not allowed\n", 1}, {"curl malformed || curl half", "", "curl: (1) Received HTTP/0.9 when not allowed\ncurl: (1) Received HTTP/0.9 when not allowed\n", 1},
		{"curl cut", "up\n", "curl: (18) transfer closed with 6 bytes remaining to read\n", 18}, {"curl cutchunk", "up\n", "curl: (18) transfer closed with outstanding read data remaining\n", 18}, {"curl -o /nope/x web", "", "curl: (23) Failure writing output to destination\n", 23},
		{"curl moved", "", "", 0}, {"curl -L moved", "up\n", "", 0}, {"curl -sL -o /dev/null -w '%{url_effective}' moved", "http://web/there", "", 0}, {"curl -L loop", "", "curl: (47) Maximum (50) redirects followed\n", 47},
		{"curl 'http://web:99999/' || curl http://", "", "curl: (3) URL using bad/illegal format or missing URL\ncurl: (3) URL using bad/illegal format or missing URL\n", 3}, {"curl gopher://web", "", "curl: (1) Protocol \"gopher\" not supported\n", 1},
		{"curl -d a=b -d c=d -H 'X-Z: 1' echo/p", "POST echo /p \"curl/8\" application/x-www-form-urlencoded1 \"a=b&c=d\"\n", "", 0}, {"curl -X PUT -H 'Content-Type: text/plain' -d x -A me echo", "PUT echo / \"me\" text/plain \"x\"\n", "", 0},
		{"printf 'a\\nb\\n' | curl -d @- echo; curl --data-raw @x echo; printf 'a\\n' > /tmp/d; curl --data-binary @/tmp/d echo", "POST echo / \"curl/8\" application/x-www-form-urlencoded \"ab\"\nPOST echo / \"curl/8\" application/x-www-form-urlencoded \"@x\"\nPOST echo / \"curl/8\" application/x-www-form-urlencoded \"a\\n\"\n", "", 0},
		{"curl -d @/nope echo", "", "curl: option -d: Failed to open /nope\n", 2}, {"curl -v talks", "up\n", "> GET / HTTP/1.1\n> Host: talks\n> User-Agent: curl/8\n> Accept: */*\n> \n< HTTP/1.1 200 OK\n< Content-Type: text/plain\n< Content-Length: 3\n< \n", 0},
		{"curl --frob web", "", "curl: option --frob: is unknown\n" + try, 2}, {"curl -s? web", "", "curl: option -?: is unknown\n" + try, 2}, {"curl -m", "", "curl: option -m: requires parameter\n" + try, 2}, {"curl -m x web", "", "curl: option -m: expected a proper numerical parameter\n" + try, 2},
		{"curl", "", "curl: (2) no URL specified\n" + try, 2}, {"curl web missing", "up\nno\n", "", 0}, {"timeout 3 curl mute", "", "", 124},
		{"curl -L gopher", "", "curl: (1) Protocol \"gopher\" not supported (in redirect)\n", 1}, {"curl gopher", "", "", 0},
		{"cd /tmp; curl -s -o a web/1 -o b missing web && cat a b", "up\nup\nno\n", "", 0}, {"cd /tmp; curl -s -O web/x/f -O 'missing/%20f?a=b' && cat f '%20f'", "up\nno\n", "", 0}, {"cd /tmp; curl --remote-name web/; cat curl_response", "up\n", "", 0},
		{"curl -u a:b -G -d x=y -d z echo/p?q=1", "GET echo /p?q=1&x=y&z \"curl/8\" Basic YTpi \"\"\n", "", 0}, {"curl -u a:b -H 'Authorization: mine' -G echo", "GET echo / \"curl/8\" mine \"\"\n", "", 0}, {"curl -g 'echo/{a}'", "GET echo /%7Ba%7D \"curl/8\"  \"\"\n", "", 0}, {"curl -sG -I -d a=b -w '%{url_effective}' created", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\nhttp://created?a=b", "", 0},
		{begun + "curl --retry 3 -o f recovers && cat f" + ended, "up\n1 s\n", "Warning: Problem : HTTP error. Will retry in 1 second. 3 retries left.\n", 0}, {begun + "curl -s --retry 3 -f -d a=b recovers" + ended, "up\n1 s\n", "", 0},
		{begun + "curl -f --retry 2 busy" + ended, "3 s\n", "curl: (22) The requested URL returned error: 503\nWarning: Problem : HTTP error. Will retry in 1 second. 2 retries left.\ncurl: (22) The requested URL returned error: 503\nWarning: Problem : HTTP error. Will retry in 2 seconds. 1 retry left.\ncurl: (22) The requested URL returned error: 503\n", 22},
		{begun + "curl -s --retry 12 --connect-timeout 1 silent" + ended, "2236 s\n", "", 28}, {begun + "curl -s --retry 2 --retry-delay 5 nope" + ended, "10 s\n", "", 6}, {begun + "curl -s --retry 2 later" + ended, "14 s\n", "", 0}, {begun + "curl -s --retry 1 dated" + ended, "9 s\n", "", 0}, {begun + "curl -s --retry 2 -m 3 mute" + ended, "12 s\n", "", 28},
		{begun + "curl -s --retry 2 web:81" + ended, "0 s\n", "", 7}, {begun + "curl --retry 1 --retry-connrefused -sS web:81" + ended, "1 s\n", "curl: (7) Failed to connect to web port 81 after 0 ms: Could not connect to server\ncurl: (7) Failed to connect to web port 81 after 0 ms: Could not connect to server\n", 7},
		{begun + "curl -s --retry 2 empty || curl -sf --retry 2 missing || curl -sf --retry 2 broken" + ended, "0 s\n", "", 22}, {begun + "curl -s --retry 1 --retry-all-errors empty" + ended, "1 s\n", "", 52},
		{"echo a=b | curl -s --retry 1 -d @- recovers; timeout 5 curl -s --retry 1 --retry-delay 60 busy", "busy\nup\nbusy\n", "", 124}, {"curl --retry x web", "", "curl: option --retry: expected a proper numerical parameter\n" + try, 2}, {"curl --retry-delay x web", "", "curl: option --retry-delay: expected a proper numerical parameter\n" + try, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := execute(t, network(t), newFS(t), "", "sh", "-c", tt.script); got != (result{tt.out, tt.err, tt.code}) {
				t.Errorf("%s\nhas the output %q, the errors %q and the code %d, want %q, %q and %d", tt.script, got.out, got.err, got.code, tt.out, tt.err, tt.code)
			}
		})
	}
	for script, want := range map[string]result{
		"wget -q web": {"", "wget: can't connect to remote host: Network is unreachable\n", 1}, "curl -sS web": {"", "curl: (7) Failed to connect to web port 80 after 0 ms: Could not connect to server\n", 7},
	} {
		if got := sh(t, script); got != want {
			t.Errorf("%s without a network: %+v", script, got)
		}
	}
}

// TestInterruptedRequests: a process that is killed closes its connection, whatever it waits for.
func TestInterruptedRequests(t *testing.T) {
	for _, command := range []string{"curl silent", "curl mute", "curl slow", "wget -qO- mute", "wget -qO- slow", "nc mute 80"} {
		synctest.Test(t, func(t *testing.T) {
			p, _, _ := process(newFS(t), strings.Fields(command)...)
			p.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			begin := time.Now()
			if code := network(t).Run(ctx, p); code != 143 || time.Since(begin) != 10*time.Second {
				t.Errorf("%s ends with %d after %v", command, code, time.Since(begin))
			}
		})
	}
}
