package shell

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The exit codes of curl.
const (
	curlUnsupported = 1
	curlUsage       = 2
	curlMalformed   = 3
	curlResolve     = 6
	curlConnect     = 7
	curlPartial     = 18
	curlStatus      = 22
	curlWrite       = 23
	curlTimeout     = 28
	curlRedirects   = 47
	curlEmpty       = 52
)

// Options of curl that have no letter.
const (
	curlConnectTimeout = "\x01"
	curlDataRaw        = "\x02"
	curlDataBinary     = "\x03"
	curlRetry          = "\x04"
	curlRetryDelay     = "\x05"
	curlRetryRefused   = "\x06"
	curlRetryAll       = "\x07"
)

const curlOptions = "sSfiIo:OX:d:GgH:A:u:kLm:vw:" + curlConnectTimeout + ":" + curlDataRaw + ":" + curlDataBinary + ":" +
	curlRetry + ":" + curlRetryDelay + ":" + curlRetryRefused + curlRetryAll +
	" silent=s show-error=S fail=f include=i head=I output=o remote-name=O request=X data=d data-ascii=d get=G globoff=g header=H user-agent=A" +
	" user=u insecure=k location=L max-time=m verbose=v write-out=w connect-timeout=" + curlConnectTimeout + " data-raw=" + curlDataRaw +
	" data-binary=" + curlDataBinary + " retry=" + curlRetry + " retry-delay=" + curlRetryDelay + " retry-connrefused=" + curlRetryRefused +
	" retry-all-errors=" + curlRetryAll

// maxRedirectsOfCurl is the number of redirections that curl follows with -L.
const maxRedirectsOfCurl = 50

// maxBackoffOfCurl is the longest time between two retries without --retry-delay.
const maxBackoffOfCurl = 10 * time.Minute

// transfer is the work of curl for a URL.
type transfer struct {
	*invocation
	o        *arguments
	output   string // the file, or "" for the standard output
	url      *url.URL
	begin    time.Time      // of the last attempt
	response *http.Response // the last one, or nil
	size     int64          // of the body, as far as it came
	cause    error          // of the last attempt, if it had no response
}

// curl transfers a URL by HTTP:
//
//	curl [-sSfiIkLvGg] [-o FILE|-O] [-X METHOD] [-d DATA] [-H LINE] [-A AGENT] [-u USER:PASSWORD] [-m SECONDS]
//		[--connect-timeout SECONDS] [--retry N] [--retry-delay SECONDS] [-w FORMAT] URL...
//
// There is no HTTPS, no progress meter, and no brackets in URLs. The first -o or -O belongs to the first URL, and so on.
func curl(c *invocation) int {
	usage := func(format string, args ...any) int {
		c.errorf(format, args...)
		c.errorf("try 'curl --help' for more information")
		return curlUsage
	}
	o, err := parseOptions(c.args, curlOptions)
	if e, ok := errors.AsType[*optionError](err); ok {
		problem := "is unknown"
		if e.lacksValue {
			problem = "requires parameter"
		}
		return usage("option %s: %s", e.option, problem)
	}
	for option, name := range map[byte]string{'m': "-m", curlConnectTimeout[0]: "--connect-timeout", curlRetryDelay[0]: "--retry-delay"} {
		if _, err := seconds(o.get(option)); o.has(option) && err != nil {
			return usage("option %s: expected a proper numerical parameter", name)
		}
	}
	retries, err := strconv.ParseUint(o.get(curlRetry[0]), 10, 31)
	if o.has(curlRetry[0]) && err != nil {
		return usage("option --retry: expected a proper numerical parameter")
	}
	if len(o.args) == 0 {
		return usage("(%d) no URL specified", curlUsage)
	}
	outputs := slices.DeleteFunc(slices.Clone(o.options), func(o option) bool { return o.name != 'o' && o.name != 'O' })
	code := 0
	for i, address := range o.args {
		t := &transfer{invocation: c, o: o, begin: time.Now()}
		if i < len(outputs) {
			t.output = outputs[i].value
			if outputs[i].name == 'O' {
				t.output = remoteName(address)
			}
		}
		code = t.run(address, retries)
		if o.has('w') {
			t.writeOut(o.get('w'), code)
		}
	}
	return code
}

// remoteName returns the name of the file that -O makes of a URL.
func remoteName(address string) string {
	u, err := parseURL(address)
	if err != nil {
		return ""
	}
	if name := path.Base(u.EscapedPath()); name != "." && !strings.HasSuffix(u.Path, "/") {
		return name
	}
	return "curl_response"
}

// failed writes a message, unless curl is silent, and returns the exit code.
func (t *transfer) failed(code int, format string, args ...any) int {
	if !t.o.has('s') || t.o.has('S') {
		t.errorf("(%d) "+format, append([]any{code}, args...)...)
	}
	return code
}

// data returns the body of the request, or nil.
func (t *transfer) data() (body []byte, err error) {
	for _, o := range t.o.options {
		if !strings.Contains("d"+curlDataRaw+curlDataBinary, string(o.name)) {
			continue
		}
		if body == nil {
			body = []byte{}
		} else {
			body = append(body, '&')
		}
		name, isFile := strings.CutPrefix(o.value, "@")
		if !isFile || o.name == curlDataRaw[0] {
			body = append(body, o.value...)
			continue
		}
		r, closer, err := t.open(name)
		if err != nil {
			//lint:ignore ST1005 the text is curl's
			return nil, fmt.Errorf("Failed to open %s", name)
		}
		b, err := t.readAll(r)
		closer()
		if err != nil {
			return nil, err
		}
		if o.name == 'd' {
			b = []byte(strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(b)))
		}
		body = append(body, b...)
	}
	return body, nil
}

// run transfers a URL, with a number of retries, and returns the exit code.
func (t *transfer) run(address string, retries uint64) int {
	u, err := parseURL(address)
	if err != nil {
		return t.failed(curlMalformed, "URL using bad/illegal format or missing URL")
	}
	if t.url = u; !isHTTP(u) {
		return t.failed(curlUnsupported, "Protocol \"%s\" not supported", u.Scheme)
	}
	body, err := t.data()
	if err != nil {
		t.errorf("option -d: %v", err)
		return curlUsage
	}
	if t.o.has('G') && len(body) > 0 {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += string(body)
	}
	if t.o.has('G') {
		body = nil
	}
	backoff := time.Second
	for ; ; retries-- {
		t.url, t.begin, t.response, t.size, t.cause = u, time.Now(), nil, 0, nil
		code := t.attempt(u, body)
		problem := t.transient(code)
		if retries == 0 || problem == "" {
			return code
		}
		delay := t.retryAfter(problem)
		if delay == 0 {
			delay, _ = seconds(t.o.get(curlRetryDelay[0]))
		}
		if delay == 0 {
			delay, backoff = backoff, min(2*backoff, maxBackoffOfCurl)
		}
		t.warnRetry(problem, delay, retries)
		if t.in.process.sleep(t.in.ctx, delay) != nil {
			t.in.step(0)
			return code
		}
	}
}

// The problems that curl retries.
const (
	anyProblem     = "(retrying all errors)"
	timeoutProblem = ": timeout"
	refusedProblem = ": connection refused"
	statusProblem  = ": HTTP error"
)

// transient returns the problem of an attempt that curl retries, or "".
func (t *transfer) transient(code int) string {
	switch {
	case code == curlTimeout, code == curlResolve:
		return timeoutProblem
	case code == curlConnect && t.o.has(curlRetryRefused[0]) && errors.Is(t.cause, syscall.ECONNREFUSED):
		return refusedProblem
	case (code == 0 || code == curlStatus) && slices.Contains([]int{408, 429, 500, 502, 503, 504, 522, 524}, t.response.StatusCode):
		return statusProblem
	case code != 0 && t.o.has(curlRetryAll[0]):
		return anyProblem
	}
	return ""
}

// retryAfter returns the delay that the server asks for, at most 6 hours, or 0.
func (t *transfer) retryAfter(problem string) time.Duration {
	if problem != statusProblem {
		return 0
	}
	after := t.response.Header.Get("Retry-After")
	if at, err := time.Parse(time.RFC1123, after); err == nil {
		return min(max(0, time.Until(at).Truncate(time.Second)), 6*time.Hour)
	}
	n, _ := strconv.ParseUint(after, 10, 31)
	return min(time.Duration(n)*time.Second, 6*time.Hour)
}

// warnRetry announces a retry, unless curl is silent.
func (t *transfer) warnRetry(problem string, delay time.Duration, retries uint64) {
	if t.o.has('s') {
		return
	}
	unit, noun := "seconds", "retries"
	if delay == time.Second {
		unit = "second"
	}
	if retries == 1 {
		noun = "retry"
	}
	number := strconv.FormatInt(int64(delay/time.Second), 10)
	if part := delay % time.Second / time.Millisecond; part > 0 {
		number += fmt.Sprintf(".%03d", part)
	}
	fmt.Fprintf(t.err, "Warning: Problem %s. Will retry in %s %s. %d %s left.\n", problem, number, unit, retries, noun)
}

// attempt transfers a URL once.
func (t *transfer) attempt(u *url.URL, body []byte) int {
	method := http.MethodGet
	switch {
	case t.o.has('X'):
		method = t.o.get('X')
	case t.o.has('I'):
		method = http.MethodHead
	case body != nil:
		method = http.MethodPost
	}
	ctx, cancel := context.WithCancelCause(t.in.ctx)
	defer cancel(nil)
	after := func(option byte) *time.Timer {
		limit, _ := seconds(t.o.get(option))
		if limit == 0 {
			limit = 1<<63 - 1
		}
		return time.AfterFunc(limit, func() { cancel(errTimeout) })
	}
	defer after('m').Stop()
	agent := "curl/8"
	if t.o.has('A') {
		agent = t.o.get('A')
	}
	headers := []string{"User-Agent: " + agent, "Accept: */*"}
	if t.o.has('u') {
		name, password, _ := strings.Cut(t.o.get('u'), ":")
		headers = append(headers, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
	r := newRequest(method, u, append(headers, t.o.all('H')...), body)
	for n := 0; ; n++ {
		connecting := after(curlConnectTimeout[0])
		p, err := t.request(ctx, r, func() { connecting.Stop() })
		connecting.Stop()
		if t.cause = err; err != nil {
			return t.requestError(r.URL, err)
		}
		t.response = p.Response
		t.show(">", p.sent)
		t.show("<", p.head)
		next := p.redirected(r)
		if next == nil || !t.o.has('L') {
			defer p.close()
			return t.receive(p)
		}
		if t.o.has('i') || t.o.has('I') {
			_, _ = t.out.Write(p.head)
		}
		p.close()
		if n == maxRedirectsOfCurl {
			return t.failed(curlRedirects, "Maximum (%d) redirects followed", maxRedirectsOfCurl)
		}
		if t.url = next.URL; !isHTTP(next.URL) {
			return t.failed(curlUnsupported, "Protocol \"%s\" not supported (in redirect)", next.URL.Scheme)
		}
		t.follow(r, next, body)
		r = next
	}
}

// follow prepares the request after a redirection. A POST becomes a GET, unless the status or -X says otherwise.
func (t *transfer) follow(r, next *http.Request, body []byte) {
	switch {
	case r.Body == nil:
	case r.Method == http.MethodPost && !t.o.has('X') && t.response.StatusCode <= http.StatusSeeOther:
		next.Method, next.Body, next.ContentLength = http.MethodGet, nil, 0
		next.Header.Del("Content-Type")
	default:
		next.Body = newRequest(r.Method, r.URL, nil, body).Body
	}
}

// show writes the head of a message with -v.
func (t *transfer) show(prefix string, message []byte) {
	if !t.o.has('v') {
		return
	}
	for line := range strings.Lines(string(message)) {
		line = strings.TrimRight(line, "\r\n")
		fmt.Fprintf(t.err, "%s %s\n", prefix, line)
		if line == "" {
			return
		}
	}
}

// receive writes the reply to the output.
func (t *transfer) receive(p *reply) int {
	if t.o.has('f') && p.StatusCode >= http.StatusBadRequest {
		return t.failed(curlStatus, "The requested URL returned error: %d", p.StatusCode)
	}
	out := io.Writer(t.out)
	if name := t.output; name != "" && name != "-" {
		w, closer, err := t.create(name, syscall.O_TRUNC)
		if err != nil {
			return t.failed(curlWrite, "Failure writing output to destination")
		}
		defer closer()
		out = w
	}
	if t.o.has('i') || t.o.has('I') {
		_, _ = out.Write(p.head)
	}
	written := &failingWriter{w: out}
	var err error
	t.size, err = io.Copy(written, p.Body)
	switch {
	case written.err != nil:
		return t.failed(curlWrite, "Failure writing output to destination")
	case errors.Is(err, errTimeout) && p.ContentLength >= 0:
		return t.failed(curlTimeout, "Operation timed out after %d milliseconds with %d out of %d bytes received", t.elapsed(), t.size, p.ContentLength)
	case errors.Is(err, errTimeout):
		return t.failed(curlTimeout, "Operation timed out after %d milliseconds with %d bytes received", t.elapsed(), t.size)
	case err != nil && p.ContentLength >= 0:
		return t.failed(curlPartial, "transfer closed with %d bytes remaining to read", p.ContentLength-t.size)
	case err != nil:
		return t.failed(curlPartial, "transfer closed with outstanding read data remaining")
	}
	return 0
}

// failingWriter remembers the error of a writer.
type failingWriter struct {
	w   io.Writer
	err error
}

func (w *failingWriter) Write(b []byte) (n int, err error) {
	n, w.err = w.w.Write(b)
	return n, w.err
}

// elapsed returns the milliseconds since the begin.
func (t *transfer) elapsed() int64 { return time.Since(t.begin).Milliseconds() }

// requestError writes the error of a request, and returns the exit code.
func (t *transfer) requestError(u *url.URL, err error) int {
	_, isDial := errors.AsType[*dialError](err)
	switch {
	case errors.Is(err, errTimeout) && isDial:
		return t.failed(curlTimeout, "Connection timed out after %d milliseconds", t.elapsed())
	case errors.Is(err, errTimeout):
		return t.failed(curlTimeout, "Operation timed out after %d milliseconds with 0 bytes received", t.elapsed())
	case errors.Is(err, errBadURL):
		return t.failed(curlMalformed, "URL using bad/illegal format or missing URL")
	case errors.Is(err, ErrUnknownHost):
		return t.failed(curlResolve, "Could not resolve host: %s", u.Hostname())
	case isDial:
		port, _ := portOf(u)
		return t.failed(curlConnect, "Failed to connect to %s port %d after %d ms: Could not connect to server", u.Hostname(), port, t.elapsed())
	case errors.Is(err, errNoReply):
		return t.failed(curlEmpty, "Empty reply from server")
	}
	return t.failed(curlUnsupported, "Received HTTP/0.9 when not allowed")
}

// writeOut writes a format with its variables.
func (t *transfer) writeOut(format string, code int) {
	variables := map[string]string{
		"exitcode": strconv.Itoa(code), "http_code": "000", "response_code": "000", "size_download": strconv.FormatInt(t.size, 10), "content_type": "",
		"time_total": fmt.Sprintf("%.6f", time.Since(t.begin).Seconds()), "url_effective": "",
	}
	if t.url != nil {
		variables["url_effective"] = t.url.String()
	}
	if t.response != nil {
		status := fmt.Sprintf("%03d", t.response.StatusCode)
		variables["http_code"], variables["response_code"], variables["content_type"] = status, status, t.response.Header.Get("Content-Type")
	}
	for format != "" {
		name, rest, isVariable := strings.Cut(strings.TrimPrefix(format, "%{"), "}")
		switch {
		case strings.HasPrefix(format, "%%"):
			t.printf("%%")
			format = format[2:]
		case strings.HasPrefix(format, "%{") && isVariable:
			value, ok := variables[name]
			if !ok {
				t.errorf("unknown --write-out variable: '%s'", name)
			}
			t.printf("%s", value)
			format = rest
		case format[0] == '\\' && len(format) > 1 && strings.IndexByte("ntr", format[1]) >= 0:
			t.printf("%c", "\n\t\r"[strings.IndexByte("ntr", format[1])])
			format = format[2:]
		default:
			_, _ = t.out.Write([]byte{format[0]})
			format = format[1:]
		}
	}
}
