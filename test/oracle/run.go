package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// requestTimeout bounds one exchange, and eventTimeout the time that EVENTS waits for the next.
	requestTimeout = 30 * time.Second
	eventTimeout   = 4 * time.Second
	// untilTimeout bounds the repetitions of an exchange, and untilInterval is their distance.
	untilTimeout  = 20 * time.Second
	untilInterval = 50 * time.Millisecond
)

// server is one of the two API servers.
type server struct {
	name string
	url  string
	// client is an administrator, and anonymous has no credentials.
	client, anonymous *http.Client
}

// run is the execution of a script on a server.
type run struct {
	server     *server
	script     *script
	normalizer *normalizer
	variables  map[string]string
	watch      *watch
}

// watch is the response to a WATCH that EVENTS has not closed yet.
type watch struct {
	cancel context.CancelFunc
	lines  chan []byte
}

// namespace returns the name of the namespace of a script.
func (s *script) namespace() string {
	return "oracle-" + s.name
}

// start creates the namespace of a script, with the service account that pods need.
func start(ctx context.Context, to *server, s *script) (*run, error) {
	r := &run{
		server:     to,
		script:     s,
		normalizer: newNormalizer(strings.TrimPrefix(to.url, "https://"), string(s.format())),
		variables:  map[string]string{"NS": s.namespace()},
	}
	for _, e := range []*exchange{
		{method: "POST", path: "/api/v1/namespaces", body: "metadata: {name: $NS}"},
		{method: "POST", path: "v1/serviceaccounts", body: "metadata: {name: default}"},
	} {
		response, err := r.send(ctx, e)
		if err != nil {
			return nil, err
		}
		if response.code >= 300 {
			return nil, fmt.Errorf("%s %s: %d %v", e.method, e.path, response.code, response.body)
		}
	}
	return r, nil
}

// close ends the watch of the run.
func (r *run) close() {
	if r.watch != nil {
		r.watch.cancel()
		r.watch = nil
	}
}

// response is a response with its body decoded.
type response struct {
	code   int
	header http.Header
	body   any
}

// do performs an exchange and returns its answer.
func (r *run) do(ctx context.Context, e *exchange) (*answer, error) {
	var (
		got *response
		err error
	)
	deadline := time.Now().Add(untilTimeout)
	for {
		switch e.method {
		case "EVENTS":
			got, err = r.events(e)
		default:
			got, err = r.send(ctx, e)
		}
		if err != nil {
			return nil, err
		}
		if r.until(e, got) || time.Now().After(deadline) {
			break
		}
		time.Sleep(untilInterval)
	}
	shown := got.body
	for _, d := range e.directives {
		switch name, value := d[0], d[1]; name {
		case "$until", "$as":
		case "$show":
			shown = show(got.body, strings.Fields(value))
		default:
			path, err := parsePath(value)
			if err != nil {
				return nil, err
			}
			r.variables[name[1:]] = fmt.Sprint(getPath(got.body, path))
		}
	}
	return r.normalizer.normalize(got.code, got.header, shown), nil
}

// until reports whether the condition of an exchange that is to be repeated is met.
func (r *run) until(e *exchange, got *response) bool {
	for _, d := range e.directives {
		if d[0] != "$until" {
			continue
		}
		field, value, isField := strings.Cut(d[1], "=")
		if !isField {
			return strconv.Itoa(got.code) == d[1]
		}
		path, err := parsePath(field)
		if err != nil {
			return true
		}
		return fmt.Sprint(getPath(got.body, path)) == r.expand(value)
	}
	return true
}

// show returns an object with the given fields of another alone.
func show(body any, fields []string) any {
	if status, ok := body.(map[string]any); ok && status["kind"] == "Status" && status["status"] == "Failure" {
		return body
	}
	shown := map[string]any{}
	for _, field := range fields {
		path, err := parsePath(field)
		if err != nil {
			shown[field] = err.Error()
			continue
		}
		if value := getPath(body, path); value != nil {
			shown[field] = value
		}
	}
	return shown
}

var variable = regexp.MustCompile(`\$[A-Za-z][A-Za-z0-9]*`)

// expand replaces the variables that are set.
func (r *run) expand(text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, found := r.variables[name[1:]]; found {
			return value
		}
		return name
	})
}

// methods are the methods of scripts that stand for a patch, with its content type.
var methods = map[string]string{
	"MERGE":     "application/merge-patch+json",
	"STRATEGIC": "application/strategic-merge-patch+json",
	"JSONPATCH": "application/json-patch+json",
	"APPLY":     "application/apply-patch+yaml",
}

// request makes the HTTP request of an exchange.
func (r *run) request(ctx context.Context, e *exchange) (*http.Request, error) {
	method, path := e.method, r.expand(e.path)
	contentType := "application/json"
	if patch, found := methods[method]; found {
		if method == "APPLY" && !strings.Contains(path, "fieldManager=") {
			path = addQuery(path, "fieldManager=oracle")
		}
		method, contentType = http.MethodPatch, patch
	}
	if method == "WATCH" {
		method, path = http.MethodGet, addQuery(path, "watch=true")
	}
	if !strings.HasPrefix(path, "/") {
		path = inNamespace(path, r.variables["NS"])
	}
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"oracle"}}
	for _, h := range e.header {
		if strings.EqualFold(h[0], "Content-Type") {
			contentType = ""
		}
		header[http.CanonicalHeaderKey(h[0])] = nil
	}
	for _, h := range e.header {
		header.Add(h[0], r.expand(h[1]))
	}
	body := []byte(r.expand(e.body))
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil
	} else if contentType != "" {
		header.Set("Content-Type", contentType)
		object, err := r.script.object(string(body))
		if err != nil {
			return nil, err
		}
		if body, err = json.Marshal(object); err != nil {
			return nil, err
		}
	} else if encode := encoders[header.Get("Content-Type")]; encode != nil {
		object, err := r.script.object(string(body))
		if err != nil {
			return nil, err
		}
		if body, err = encode(object); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, r.server.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == nil {
		request.Body, request.ContentLength = nil, 0
	}
	request.Header = header
	return request, nil
}

// inNamespace returns the path of a resource, given as VERSION/RESOURCE or GROUP/VERSION/RESOURCE
// with what follows, in a namespace.
func inNamespace(path, namespace string) string {
	parts := strings.SplitN(path, "/", 3)
	if parts[0] == "v1" {
		return "/api/v1/namespaces/" + namespace + "/" + strings.Join(parts[1:], "/")
	}
	return "/apis/" + parts[0] + "/" + parts[1] + "/namespaces/" + namespace + "/" + strings.Join(parts[2:], "/")
}

func addQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// send sends the request of an exchange and reads the response, or of a WATCH its header.
func (r *run) send(ctx context.Context, e *exchange) (*response, error) {
	watching := e.method == "WATCH"
	if !watching {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	request, err := r.request(ctx, e)
	if err != nil {
		cancel()
		return nil, err
	}
	client := r.server.client
	for _, d := range e.directives {
		if d[0] == "$as" {
			client = r.server.anonymous
		}
	}
	got, err := client.Do(request)
	if err != nil {
		cancel()
		if refused, _ := err.(*url.Error); refused != nil {
			return nil, refused.Err
		}
		return nil, err
	}
	if watching && got.StatusCode == http.StatusOK {
		r.close()
		r.watch = &watch{cancel: cancel, lines: make(chan []byte, 1000)}
		go readLines(got.Body, r.watch.lines)
		return &response{code: got.StatusCode, header: got.Header}, nil
	}
	defer cancel()
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	if got.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		if content, err = io.ReadAll(unzip); err != nil {
			return nil, err
		}
	}
	body, err := decode(got.Header.Get("Content-Type"), content)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	return &response{code: got.StatusCode, header: got.Header, body: body}, nil
}

// readLines sends the lines of a body to a channel, and closes both at the end.
func readLines(body io.ReadCloser, lines chan<- []byte) {
	defer close(lines)
	defer body.Close()
	reader := bufio.NewReader(body)
	for {
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			lines <- line
		}
		if err != nil {
			return
		}
	}
}

// events reads events of the last WATCH, as many as the path of the exchange says or, if it is
// "end", until the server ends the watch, and closes it.
func (r *run) events(e *exchange) (*response, error) {
	if r.watch == nil {
		return &response{body: map[string]any{"events": "there is no watch"}}, nil
	}
	defer r.close()
	count, err := strconv.Atoi(e.path)
	if err != nil && e.path != "end" {
		return nil, err
	}
	events := []any{}
	for e.path == "end" || len(events) < count {
		select {
		case line, open := <-r.watch.lines:
			if !open {
				return eventsResponse(append(events, "end")), nil
			}
			var event any
			if err := utiljson.Unmarshal(line, &event); err != nil {
				return nil, err
			}
			events = append(events, event)
		case <-time.After(eventTimeout):
			return eventsResponse(append(events, "timeout")), nil
		}
	}
	return eventsResponse(events), nil
}

func eventsResponse(events []any) *response {
	header := http.Header{}
	for _, usual := range usualHeaders {
		name, value, _ := strings.Cut(usual, ": ")
		header.Set(name, value)
	}
	return &response{code: http.StatusOK, header: header, body: map[string]any{"events": events}}
}

// decode decodes a body by its content type. An unstructured body is a string.
func decode(contentType string, content []byte) (any, error) {
	if len(content) == 0 {
		return nil, nil
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	var value any
	switch mediaType {
	case "application/json":
		if err := utiljson.Unmarshal(content, &value); err != nil {
			return decodeStream(content), nil
		}
	case "application/yaml":
		if err := utilyaml.Unmarshal(content, &value); err != nil {
			return nil, err
		}
	case "application/cbor":
		if err := direct.Unmarshal(content, &value); err != nil {
			return nil, err
		}
	case "application/vnd.kubernetes.protobuf":
		return decodeProtobuf(content)
	default:
		return string(content), nil
	}
	return value, nil
}

// decodeStream decodes the events of a finished watch. Text that is not JSON is a string.
func decodeStream(content []byte) any {
	var events []any
	for line := range bytes.Lines(content) {
		var event any
		if err := utiljson.Unmarshal(line, &event); err != nil {
			return string(content)
		}
		events = append(events, event)
	}
	return map[string]any{"events": events}
}
