package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/ctrl/reconcile"
	"flyball.dev/internal/inprocess"
)

// A process is a client of the control plane that can crash: one run of a replica of the operator. The cluster's
// controllers and the users of a scenario are processes too.
type process struct {
	world     *world
	name      string // canonical: operator, operator-2, deployment-controller
	cluster   bool   // a controller of the cluster
	transport http.RoundTripper
	upgrade   http.RoundTripper // for requests that upgrade their connection; nil for the transport itself

	// The world's mutex protects these.
	crashed bool
	paused  *release          // if not nil, all its actions wait
	frozen  map[string]uint64 // by resource, or "" for all: the revision at which the view stands still
	streams map[*stream]bool
	last    map[string][]byte // by resource and object: the last event, if conditions of the schedule may ask for it

	lease leadershipOf
	ends  ends
	old   bool // the process acts on an old view, or may

	stop context.CancelFunc // of the operator's manager; nil for others
	done chan error         // receives the result of the manager
}

// errCrashed is the error of a request of a process that has crashed. Nobody sees it but the remains of the process.
var errCrashed = errors.New("lab: the process has crashed")

// InProcess says that the transport opens no socket.
func (p *process) InProcess() bool { return true }

var _ inprocess.Checker = (*process)(nil)

// Checks says that the lab finds the mistakes of the operator: its manager need not look for them in each run.
func (p *process) Checks() bool { return true }

var requestInfos = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// RoundTrip implements http.RoundTripper. It returns when the lab has chosen the request.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := requestInfos.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	if !info.IsResourceRequest {
		if p.world.isCrashed(p) {
			return nil, errCrashed
		}
		return p.discover(r)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	a := p.newAction(info, body)
	if !p.cluster && a.isWrite() {
		a.causes = reconcile.CausesFrom(r.Context())
	}
	if response, err := p.watchSame(r, info, a); response != nil || err != nil {
		return response, err
	}
	v, err := p.world.wait(r.Context(), a)
	switch {
	case err != nil:
		return nil, err
	case v.dead, v.fault.is(CrashBefore):
		return nil, errCrashed
	case v.fault.choice != nil && v.fault.choice.Do.ofRequest() && !v.fault.is(Lost) && !v.fault.is(LateTimeout):
		return refusal(r, v.fault.choice.Do, a), nil
	}
	if a.isWrite() && !a.isLease() && !a.isRecord() {
		p.world.checkLeader(a)
	}
	response, err := p.send(r, info, a)
	if a.finished != nil {
		close(a.finished)
	}
	if err == nil && a.resource == leaseResource && !p.cluster && a.verb != "list" && a.verb != "watch" {
		p.world.observeLease(p, a, body, response)
	}
	switch {
	case v.fault.is(CrashAfter):
		discard(response)
		p.world.crash(p)
		return nil, errCrashed
	case v.fault.is(Lost) && err == nil:
		discard(response)
		return nil, fmt.Errorf("read tcp: %w", syscall.ECONNRESET)
	case v.fault.is(LateTimeout) && err == nil:
		discard(response)
		return refusal(r, Timeout, a), nil
	}
	return response, err
}

// newAction returns the action of a request.
func (p *process) newAction(info *request.RequestInfo, body []byte) *action {
	a := &action{process: p, verb: info.Verb, resource: info.Resource, content: body}
	if info.APIGroup != "" {
		a.resource += "." + info.APIGroup
	}
	resource := a.resource
	if info.Subresource != "" {
		a.resource += "/" + info.Subresource
	}
	name := info.Name
	if name == "" && info.Verb == "create" {
		if meta := metadataOf(body); meta.Name != "" {
			name = meta.Name
		} else {
			name = meta.GenerateName + "*"
		}
	}
	switch {
	case name != "":
		a.object = p.world.names.canonical(resource, info.Namespace, name)
	case info.Namespace != "" && info.Verb != "list" && info.Verb != "watch":
		a.object = info.Namespace + "/"
	}
	a.lock = p.world.locks.has(a, body)
	return a
}

// send carries out a request, in the view of the process.
func (p *process) send(r *http.Request, info *request.RequestInfo, a *action) (*http.Response, error) {
	if p.readsJSON(a) {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", withJSON(r.Header.Get("Accept")))
	}
	frozen, isFrozen := p.world.frozenAt(p, a.resource)
	isFrozen = isFrozen && !a.lock
	switch {
	case info.Verb == "watch" && !p.cluster:
		if isFrozen && r.URL.Query().Get("sendInitialEvents") == "true" {
			return refusal(r, noWatchList, a), nil
		}
		return p.watch(r, a)
	case isFrozen && info.Verb == "list":
		return p.transport.RoundTrip(atRevision(r, frozen, ""))
	case isFrozen && info.Verb == "get" && info.Subresource == "":
		return p.frozenGet(r, info, frozen)
	}
	transport := p.transport
	if p.upgrade != nil && r.Header.Get("Upgrade") != "" {
		transport = p.upgrade
	}
	if prefix, generates := strings.CutSuffix(a.object, "*"); generates && info.Verb == "create" {
		prefix = strings.TrimPrefix(prefix, info.Namespace+"/")
		p.world.names.await(a.resource, info.Namespace, prefix, 1)
		defer p.world.names.await(a.resource, info.Namespace, prefix, -1)
	}
	response, err := transport.RoundTrip(r)
	if err == nil && info.Verb == "create" && info.Subresource == "" && response.StatusCode < 300 {
		err = p.learnName(response, a)
	}
	return response, err
}

// readsJSON reports whether the lab reads more of the response than the metadata of objects.
func (p *process) readsJSON(a *action) bool {
	return !p.cluster && (p.world.program != nil || len(p.world.counters) > 0)
}

// learnName gives the name that the server has generated for a new object its canonical form.
func (p *process) learnName(response *http.Response, a *action) error {
	content, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	if err != nil || !strings.HasSuffix(a.object, "*") {
		return err
	}
	meta := metadataOf(content)
	p.world.names.generated(a.resource, meta.Namespace, meta.GenerateName, meta.Name)
	return nil
}

// frozenGet answers a get with the object as it was at a revision.
func (p *process) frozenGet(r *http.Request, info *request.RequestInfo, revision uint64) (*http.Response, error) {
	list := atRevision(r, revision, "metadata.name="+info.Name)
	list.Header.Set("Accept", withJSON(list.Header.Get("Accept")))
	list.URL.Path = strings.TrimSuffix(list.URL.Path, "/"+info.Name)
	response, err := p.transport.RoundTrip(list)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	var found struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return nil, err
	}
	if len(found.Items) == 0 {
		return statusResponse(r, metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("%s %q not found", info.Resource, info.Name),
			Details: &metav1.StatusDetails{Name: info.Name, Group: info.APIGroup, Kind: info.Resource}}), nil
	}
	var item map[string]any
	if err := utiljson.Unmarshal(found.Items[0], &item); err != nil {
		return nil, err
	}
	item["kind"], item["apiVersion"] = strings.TrimSuffix(found.Kind, "List"), found.APIVersion
	return jsonResponse(r, http.StatusOK, item), nil
}

// atRevision returns a list request for the state at a revision.
func atRevision(r *http.Request, revision uint64, fieldSelector string) *http.Request {
	list := r.Clone(r.Context())
	q := list.URL.Query()
	if q.Get("continue") == "" {
		if q.Get("resourceVersion") == "0" && !listsEvents(r.URL.Path) {
			q.Del("limit") // which the API server ignores
		}
		q.Set("resourceVersion", strconv.FormatUint(revision, 10))
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	if fieldSelector != "" {
		q.Set("fieldSelector", fieldSelector)
	}
	u := *list.URL
	u.RawQuery = q.Encode()
	list.URL = &u
	return list
}

// listsEvents reports whether a path is one of a list of events, which have no watch cache.
func listsEvents(path string) bool {
	return strings.HasSuffix(path, "/events") && (strings.HasPrefix(path, "/api/v1/") || strings.HasPrefix(path, "/apis/events.k8s.io/"))
}

// withJSON replaces protobuf in an Accept header by JSON.
func withJSON(accept string) string {
	parts := strings.Split(accept, ",")
	for i, part := range parts {
		kind, params, found := strings.Cut(strings.TrimSpace(part), ";")
		if kind == "application/vnd.kubernetes.protobuf" || kind == "application/cbor" {
			kind = "application/json"
		}
		if found {
			kind += ";" + strings.ReplaceAll(params, ";stream=watch", "")
		}
		parts[i] = kind
	}
	return strings.Join(parts, ",")
}

// readBody returns the body of a request, which can be sent afterwards.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	content, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	r.Body, _ = r.GetBody()
	return content, err
}

func discard(response *http.Response) {
	if response != nil {
		response.Body.Close()
	}
}

// noWatchList refuses the initial events of a watch, as servers do that have none.
const noWatchList Fault = "no watch list"

// refusal returns the response to a request that a fault refuses.
func refusal(r *http.Request, kind Fault, a *action) *http.Response {
	status := metav1.Status{Details: &metav1.StatusDetails{}}
	if _, name, ok := strings.Cut(a.object, "/"); ok {
		status.Details.Name = name
	}
	status.Details.Kind, _, _ = strings.Cut(a.resource, ".")
	switch kind {
	case Conflict:
		status.Code, status.Reason = http.StatusConflict, metav1.StatusReasonConflict
		status.Message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", status.Details.Kind, status.Details.Name)
		if a.verb == "create" {
			// A create does not conflict with a revision of its own object, but may with one of a quota.
			status.Details.Kind, status.Details.Name = "resourcequotas", "quota"
			status.Message = `Operation cannot be fulfilled on resourcequotas "quota": the object has been modified; please apply your changes to the latest version and try again`
		}
	case TooMany:
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		status.Message, status.Details.RetryAfterSeconds = "the server has received too many requests and has asked us to try again later", 1
	case ServerError:
		status.Code, status.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
		status.Message = "Internal error occurred: etcdserver: leader changed"
	case Refuse:
		status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		status.Message = `admission webhook "lab.flyball.dev" denied the request: try again later`
	case Timeout:
		status.Code, status.Reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
		status.Message = "Timeout: request did not complete within the allotted timeout"
	case noWatchList:
		status.Code, status.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
		status.Message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
	}
	return statusResponse(r, status)
}

func statusResponse(r *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Status = metav1.StatusFailure
	response := jsonResponse(r, int(status.Code), status)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response
}

func jsonResponse(r *http.Request, code int, content any) *http.Response {
	encoded, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("lab: %v", err)) // content is made of decoded JSON
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    io.NopCloser(bytes.NewReader(encoded)),
		Request: r, ContentLength: int64(len(encoded)),
	}
}

// queryBool returns whether a parameter of a URL is true.
func queryBool(u *url.URL, name string) bool {
	ok, _ := strconv.ParseBool(u.Query().Get(name))
	return ok
}
