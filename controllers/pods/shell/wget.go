package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"syscall"
	"time"
)

// Options of wget that have no letter.
const (
	wgetHeader   = "\x01"
	wgetPostData = "\x02"
	wgetSpider   = "\x03"
	wgetInsecure = "\x04"
)

const wgetUsage = "Usage: wget [-qS] [--spider] [-O FILE] [--header STR] [--post-data STR] [--no-check-certificate] [-U AGENT] [-T SEC] URL..."

// maxRedirectsOfWget is the number of redirections that wget follows, as in busybox.
const maxRedirectsOfWget = 15

// wget downloads files by HTTP, with the messages of busybox:
//
//	wget [-qS] [-O FILE] [-T SECONDS] [-U AGENT] [--spider] [--header LINE] [--post-data TEXT] [--no-check-certificate] URL...
func wget(c *invocation) int {
	o, err := parseOptions(c.args, "qSO:T:U:t:nv"+wgetHeader+":"+wgetPostData+":"+wgetSpider+wgetInsecure+
		" quiet=q server-response=S output-document=O timeout=T user-agent=U tries=t no-verbose=n header="+wgetHeader+
		" post-data="+wgetPostData+" spider="+wgetSpider+" no-check-certificate="+wgetInsecure)
	if err == nil && len(o.args) == 0 {
		err = errors.New("missing URL")
	}
	limit := 900 * time.Second
	if err == nil && o.has('T') {
		limit, err = seconds(o.get('T'))
	}
	if err != nil {
		c.errorf("%v", err)
		fmt.Fprintln(c.err, wgetUsage)
		return 1
	}
	for _, address := range o.args {
		u, err := parseURL(address)
		if err == nil && u.Scheme != "http" && u.Scheme != "https" {
			return c.errorf("not an http or ftp url: %s", address)
		}
		if err != nil {
			return c.errorf("bad address '%s'", address)
		}
		if code := c.download(u, o, limit); code != 0 {
			return code
		}
	}
	return 0
}

// download downloads a file. The limit is the time between two reads.
func (c *invocation) download(u *url.URL, o *arguments, limit time.Duration) int {
	ctx, cancel := context.WithCancelCause(c.in.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errTimeout) })
	defer timer.Stop()
	note := func(format string, args ...any) {
		if !o.has('q') {
			fmt.Fprintf(c.err, format+"\n", args...)
		}
	}
	headers := []string{"User-Agent: Wget"}
	if o.has('U') {
		headers = []string{"User-Agent: " + o.get('U')}
	}
	method, body := http.MethodGet, []byte(nil)
	if o.has(wgetPostData[0]) {
		method, body = http.MethodPost, []byte(o.get(wgetPostData[0]))
	}
	r := newRequest(method, u, append(headers, o.all(wgetHeader[0])...), body)
	r.Close = true
	for n := 0; ; n++ {
		if n > maxRedirectsOfWget {
			return c.errorf("too many redirections")
		}
		note("Connecting to %s", r.URL.Host)
		p, err := c.request(ctx, r, func() { timer.Reset(limit) })
		if err != nil {
			return c.downloadError(r.URL, err)
		}
		if o.has('S') {
			for line := range strings.Lines(string(p.head)) {
				if line = strings.TrimRight(line, "\r\n"); line != "" {
					fmt.Fprintf(c.err, "  %s\n", line)
				}
			}
		}
		next := p.redirected(r)
		if next == nil {
			defer p.close()
			return c.save(p, u, o, note)
		}
		p.close()
		if next.Body = nil; body != nil {
			next.Body = newRequest(method, u, nil, body).Body
		}
		r = next
	}
}

// save writes the body of a reply to a file.
func (c *invocation) save(p *reply, u *url.URL, o *arguments, note func(format string, args ...any)) int {
	if status := p.StatusCode; status >= http.StatusBadRequest || status > http.StatusNoContent && status < http.StatusMultipleChoices {
		line, _, _ := strings.Cut(string(p.head), "\n")
		return c.errorf("server returned error: %s", strings.TrimSpace(line))
	}
	if o.has(wgetSpider[0]) {
		note("remote file exists")
		return 0
	}
	name, flag := o.get('O'), syscall.O_TRUNC
	if name == "" {
		if name, flag = path.Base(u.Path), syscall.O_TRUNC|syscall.O_EXCL; name == "." || name == "/" {
			name = "index.html"
		}
	}
	out, saving, saved := io.Writer(c.out), "writing to stdout", "written to stdout"
	if name != "-" {
		w, closer, err := c.create(name, flag)
		if err != nil {
			return c.errorf("can't open '%s': %s", name, errText(err))
		}
		defer closer()
		out, saving, saved = w, "saving to '"+name+"'", "'"+name+"' saved"
	}
	note("%s", saving)
	if _, err := io.Copy(out, p.Body); err != nil {
		switch {
		case errors.Is(err, errTimeout):
			return c.errorf("download timed out")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return c.errorf("connection closed prematurely")
		}
		return c.errorf("%s", errText(err))
	}
	note("%s", saved)
	return 0
}

// downloadError writes the error of a request, and returns the exit code 1.
func (c *invocation) downloadError(u *url.URL, err error) int {
	dial, isDial := errors.AsType[*dialError](err)
	switch {
	case errors.Is(err, errTimeout):
		return c.errorf("download timed out")
	case errors.Is(err, ErrUnknownHost), errors.Is(err, errBadURL):
		return c.errorf("bad address '%s'", u.Host)
	case isDial:
		return c.errorf("can't connect to remote host: %s", problemOf(dial))
	case errors.Is(err, errNoTLS):
		return c.errorf("error getting response: Connection reset by peer")
	}
	return c.errorf("error getting response")
}
