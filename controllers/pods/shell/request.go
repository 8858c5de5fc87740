package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// The errors of a request, besides errTimeout and the error of dialing.
var (
	errBadURL  = errors.New("bad URL")
	errNoReply = errors.New("no reply") // the server closed the connection
	errNotHTTP = errors.New("the reply is not HTTP")
)

// dialError is the error of a connection that cannot be made.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// reply is a response to a request.
type reply struct {
	*http.Response
	sent, head []byte // the request and the head of the response, as they were on the connection
	close      func()
}

// parseURL parses a URL. The scheme http is the default.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, errBadURL
	}
	return u, nil
}

// isHTTP reports whether a URL is one of HTTP. There is no HTTPS: wget and curl are builds without TLS.
func isHTTP(u *url.URL) bool { return u.Scheme == "http" }

// portOf returns the port of a URL.
func portOf(u *url.URL) (int32, error) {
	if u.Port() == "" {
		return 80, nil
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return 0, errBadURL
	}
	return int32(n), nil
}

// newRequest returns a request with header lines, as "Name: value". A line without a value removes a header.
func newRequest(method string, u *url.URL, headers []string, body []byte) *http.Request {
	r := &http.Request{Method: method, URL: u, Header: http.Header{}}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), password)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Host"):
			r.Host = value
		case value != "" || strings.EqualFold(name, "User-Agent"): // an empty one keeps net/http from adding its own
			r.Header.Set(name, value)
		default:
			r.Header.Del(name)
		}
	}
	return r
}

// request sends a request over a new connection, and returns the reply. The caller closes the reply. request calls alive when the
// connection is made, and whenever the server has sent something.
func (c *invocation) request(ctx context.Context, r *http.Request, alive func()) (_ *reply, err error) {
	port, err := portOf(r.URL)
	if err != nil {
		return nil, err
	}
	message := &bytes.Buffer{}
	if err := r.Write(message); err != nil {
		return nil, errBadURL
	}
	conn, err := c.dial(ctx, r.URL.Hostname(), port)
	if err != nil {
		return nil, &dialError{err}
	}
	alive()
	stop, sent := context.AfterFunc(ctx, func() { _ = conn.Close() }), make(chan struct{})
	go func() { // until the connection is closed, at the latest: a server may answer without reading
		defer close(sent)
		_, _ = conn.Write(message.Bytes())
	}()
	p := &reply{sent: message.Bytes(), close: func() {
		stop()
		_ = conn.Close()
		<-sent
	}}
	defer func() {
		if p.Response == nil {
			p.close()
		}
	}()
	from := bufio.NewReader(readerFunc(func(b []byte) (int, error) {
		n, err := conn.Read(b)
		c.in.step(0)
		c.in.process.waited()
		if err != nil && ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		alive()
		return n, err
	}))
	for p.Response == nil || p.StatusCode < http.StatusOK && p.StatusCode != http.StatusSwitchingProtocols {
		p.Response = nil
		if p.head, err = readHead(from, c.inputLimit()); err != nil {
			return nil, err
		}
		if p.Response, err = http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(p.head), from)), r); err != nil {
			p.Response = nil
			return nil, errNotHTTP
		}
	}
	return p, nil
}

// readHead reads the status line and the headers of a response.
func readHead(r *bufio.Reader, limit int) (head []byte, err error) {
	for {
		line, err := r.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case errors.Is(err, errTimeout):
			return head, err
		case err != nil && len(head) == 0:
			return head, errNoReply
		case !bytes.HasPrefix(head, []byte("HTTP/")), err != nil && !errors.Is(err, bufio.ErrBufferFull), len(head) > limit:
			return head, errNotHTTP
		case bytes.HasSuffix(head, []byte("\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n")):
			return head, nil
		}
	}
}

// redirected returns the request that follows a reply with a location, or nil.
func (p *reply) redirected(r *http.Request) *http.Request {
	to, err := p.Location()
	if err != nil || p.StatusCode < http.StatusMultipleChoices || p.StatusCode >= http.StatusBadRequest {
		return nil
	}
	next := *r
	next.URL, next.Header = to, r.Header.Clone()
	if to.Host != r.URL.Host {
		next.Host = ""
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	return &next
}

// problemOf returns the text of the error of a connection that cannot be made.
func problemOf(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errText(errno)
	}
	return err.Error()
}
