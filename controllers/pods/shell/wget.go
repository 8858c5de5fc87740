package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

// The letter after -n has no effect, as in busybox.
const wgetOptions = "cqSO:P:T:U:t:n::v" + wgetHeader + ":" + wgetPostData + ":" + wgetSpider + wgetInsecure +
	" continue=c quiet=q server-response=S output-document=O directory-prefix=P timeout=T user-agent=U tries=t no-verbose=n no-clobber=n" +
	" no-host-directories=n no-parent=n no-cache=n passive-ftp=n header=" + wgetHeader + " post-data=" + wgetPostData +
	" spider=" + wgetSpider + " no-check-certificate=" + wgetInsecure

const wgetUsage = "Usage: wget [-cqS] [--spider] [-O FILE] [--header STR] [--post-data STR] [--no-check-certificate] [-P DIR] [-U AGENT] [-T SEC] URL..."

// maxRedirectsOfWget is the number of redirections that wget follows, as in busybox.
const maxRedirectsOfWget = 15

// wget downloads files by HTTP, with the messages of busybox:
//
//	wget [-cqS] [-O FILE] [-P FOLDER] [-T SECONDS] [-U AGENT] [--spider] [--header LINE] [--post-data TEXT] [--no-check-certificate] URL...
func wget(c *invocation) int {
	o, err := parseOptions(c.args, wgetOptions)
	if err == nil && len(o.args) == 0 {
		err = errors.New("missing URL")
	}
	limit := 900 * time.Second
	if err == nil && o.has('T') {
		limit, err = seconds(o.get('T'))
	}
	if limit == 0 { // no limit
		limit = 1<<63 - 1
	}
	if err != nil {
		c.errorf("%v", err)
		fmt.Fprintln(c.err, wgetUsage)
		return 1
	}
	for _, address := range o.args {
		u, err := parseURL(address)
		if err == nil && !isHTTP(u) {
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
	to := c.destinationOf(u, o)
	if to.from > 0 {
		headers = append(headers, fmt.Sprintf("Range: bytes=%d-", to.from))
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
		if next == nil || !isSuccess(p.StatusCode, to.from) {
			defer p.close()
			return c.save(p, to, o, note)
		}
		p.close()
		if !isHTTP(next.URL) {
			return c.errorf("not an http or ftp url: %s", next.URL)
		}
		if next.Body = nil; body != nil {
			next.Body = newRequest(method, u, nil, body).Body
		}
		r = next
	}
}

// destination is the file of a download.
type destination struct {
	name string // - for the standard output
	flag int    // for opening it, besides O_TRUNC
	from int64  // the size of the part that is there, with -c
}

// destinationOf returns the file for a URL: of -O, or the last part of the URL in the folder of -P.
func (c *invocation) destinationOf(u *url.URL, o *arguments) destination {
	to := destination{name: o.get('O')}
	if to.name == "" {
		name := u.RequestURI()
		if name = name[strings.LastIndex(name, "/")+1:]; name == "" {
			name = "index.html"
		}
		to.name, to.flag = name, syscall.O_EXCL
		if dir := o.get('P'); dir != "" {
			to.name = strings.TrimSuffix(dir, "/") + "/" + name
		}
	}
	if info, err := c.in.fs.Stat(c.path(to.name)); o.has('c') && to.name != "-" && err == nil {
		to.flag, to.from = 0, info.Size()
	}
	return to
}

// isSuccess reports whether a status is a success for busybox. from is the size of the part that is there.
func isSuccess(status int, from int64) bool {
	switch status {
	case 200, 201, 202, 203, 204, 300, 301, 302, 303, 307, 308:
		return true
	}
	return status == http.StatusPartialContent && from > 0
}

// save writes the body of a reply to a file.
func (c *invocation) save(p *reply, to destination, o *arguments, note func(format string, args ...any)) int {
	if !isSuccess(p.StatusCode, to.from) {
		line, _, _ := strings.Cut(string(p.head), "\n")
		return c.errorf("server returned error: %s", strings.TrimSpace(line))
	}
	flag := to.flag | syscall.O_TRUNC
	switch {
	case p.StatusCode == http.StatusPartialContent:
		flag = syscall.O_APPEND
	case to.from > 0 && p.StatusCode < http.StatusMultipleChoices:
		c.errorf("restart failed")
	}
	if o.has(wgetSpider[0]) {
		note("remote file exists")
		return 0
	}
	out, saving, saved := io.Writer(c.out), "writing to stdout", "written to stdout"
	if to.name != "-" {
		w, closer, err := c.create(to.name, flag)
		if err != nil {
			return c.errorf("can't open '%s': %s", to.name, errText(err))
		}
		defer closer()
		out, saving, saved = w, "saving to '"+to.name+"'", "'"+to.name+"' saved"
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
	}
	return c.errorf("error getting response")
}
