package runtime

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector selects containers. An empty field selects all.
type Selector struct {
	Namespace string
	// Pod is the name of a pod.
	Pod string
	// Labels selects by the labels of the pod, as "app=web,tier!=db".
	Labels string
	// Container is the name of a container.
	Container string
	// Image is a pattern of images, in which * matches any characters.
	Image string
	// Command is the name of the command, without its folder: psql for /usr/bin/psql.
	Command string
}

// Handlers are the Go functions that execute containers and commands, and the listeners that serve the ports of pods, of
// one control plane. The last that was registered goes first. The zero value has none. Its methods may be called from
// several goroutines at once.
//
// A handler is found when its process starts, so a handler that is registered later does not change a process that runs.
// Containers that nothing executes begin to execute it.
type Handlers struct {
	mu        sync.Mutex
	handlers  []*registration
	listeners []*listener
	forwards  []*forward
	watchers  []*watcher
}

// watcher is a function that is called after changes.
type watcher struct{ changed func(Selector) }

// Clone returns handlers with the same registrations, except for the listeners of processes. Later ones of either are not in the
// other.
func (h *Handlers) Clone() *Handlers {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	listeners := slices.DeleteFunc(slices.Clone(h.listeners), func(l *listener) bool { return l.ofProcess })
	return &Handlers{handlers: slices.Clone(h.handlers), listeners: listeners, forwards: slices.Clone(h.forwards)}
}

// Empty reports whether nothing is registered.
func (h *Handlers) Empty() bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.handlers)+len(h.listeners)+len(h.forwards) == 0
}

// Watch registers a function that is called after each registration and removal, with its selector and without a lock. remove
// undoes that.
func (h *Handlers) Watch(changed func(Selector)) (remove func()) {
	w := &watcher{changed}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = append(slices.Clone(h.watchers), w)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watchers = without(h.watchers, w)
	}
}

// change changes the registrations with a selector, and calls the watchers.
func (h *Handlers) change(s Selector, change func()) {
	h.mu.Lock()
	change()
	watchers := h.watchers
	h.mu.Unlock()
	for _, w := range watchers {
		w.changed(s)
	}
}

// registration is a registered handler.
type registration struct {
	match   matcher
	exec    bool
	handler Handler
}

// Handle registers the handler of the main processes of the selected containers. Its processes have the handler that was registered
// before it, if one selects them, as Next. remove undoes that. Handle returns
// an error if the selector of labels does not parse.
func (h *Handlers) Handle(s Selector, handler Handler) (remove func(), err error) {
	return h.add(s, false, handler)
}

// HandleExec registers the handler of the commands that are executed in the selected containers: by clients, exec probes
// and lifecycle hooks. remove undoes that.
func (h *Handlers) HandleExec(s Selector, handler Handler) (remove func(), err error) {
	return h.add(s, true, handler)
}

func (h *Handlers) add(s Selector, exec bool, handler Handler) (remove func(), err error) {
	m, err := newMatcher(s)
	if err != nil {
		return nil, err
	}
	r := &registration{match: m, exec: exec, handler: handler}
	h.change(s, func() { h.handlers = append(h.handlers, r) })
	return func() { h.change(s, func() { h.handlers = without(h.handlers, r) }) }, nil
}

// Find returns the handler of a process, or nil. otherwise is what the handler of the process calls as Next, if there is
// no other handler.
func (h *Handlers) Find(p *Process, otherwise Handler) Handler {
	if h == nil {
		return nil
	}
	command := ""
	if len(p.Args) > 0 {
		command = path.Base(p.Args[0])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var found Handler
	for _, r := range h.handlers {
		if r.exec == p.Exec && r.match.matches(p.Pod, p.Container, command) {
			next, handler := otherwise, r.handler
			if found != nil {
				next = found
			}
			found = func(ctx context.Context, p *Process) int {
				own := *p
				own.Next = next
				return handler(ctx, &own)
			}
		}
	}
	return found
}

// Listen returns a listener that accepts the connections to a port of the selected pods, from port-forward, from the
// proxies of pods and services, and from probes. Container, Image and Command of the selector are not used. The listener
// has no socket. Close removes it. The connections are of net.Pipe; LocalAddr has the pod and the port.
func (h *Handlers) Listen(s Selector, port int32) (net.Listener, error) {
	return h.listen(s, port, false)
}

// ListenAs is [Handlers.Listen] for a process, on a port of its pod. [Handlers.Clone] omits the listener, because another control
// plane does not have the process.
func (h *Handlers) ListenAs(p *Process, port int32) (net.Listener, error) {
	return h.listen(Selector{Namespace: p.Pod.Namespace, Pod: p.Pod.Name}, port, true)
}

func (h *Handlers) listen(s Selector, port int32, ofProcess bool) (net.Listener, error) {
	m, err := newMatcher(s)
	if err != nil {
		return nil, err
	}
	l := &listener{handlers: h, match: m, port: port, ofProcess: ofProcess, conns: make(chan net.Conn), closed: make(chan struct{})}
	h.change(s, func() { h.listeners = append(h.listeners, l) })
	return l, nil
}

// Forward makes the connections to a port of the selected pods go to a TCP address, such as 127.0.0.1:5432, if there is no
// listener. Container, Image and Command of the selector are not used. remove undoes that.
func (h *Handlers) Forward(s Selector, port int32, address string) (remove func(), err error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, err
	}
	return h.ForwardTo(s, port, func(ctx context.Context, _ int32) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
}

// ForwardTo makes the connections to a port of the selected pods go where a function connects to, if there is no listener.
// Port 0 stands for all ports. Container, Image and Command of the selector are not used. remove undoes that.
func (h *Handlers) ForwardTo(s Selector, port int32, dial func(ctx context.Context, port int32) (net.Conn, error)) (remove func(), err error) {
	m, err := newMatcher(s)
	if err != nil {
		return nil, err
	}
	f := &forward{m, port, dial}
	h.change(s, func() { h.forwards = append(h.forwards, f) })
	return func() { h.change(s, func() { h.forwards = without(h.forwards, f) }) }, nil
}

// forward is a port of pods, or 0 for all ports, that a function connects to.
type forward struct {
	match matcher
	port  int32
	dial  func(ctx context.Context, port int32) (net.Conn, error)
}

// without returns a list without an element. It leaves the list as it is.
func without[E comparable](list []E, element E) []E {
	return slices.DeleteFunc(slices.Clone(list), func(other E) bool { return other == element })
}

// Dial connects to a listener for a port of a pod, or to the address that it is forwarded to. The error is
// [syscall.ECONNREFUSED] if there is none.
func (h *Handlers) Dial(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error) {
	l, f := h.serves(pod, port)
	if f != nil {
		return f.dial(ctx, port)
	}
	if l != nil {
		client, server := net.Pipe()
		select {
		case l.conns <- &conn{server, address{pod.Namespace, pod.Name, port}}:
			return client, nil
		case <-l.closed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address{pod.Namespace, pod.Name, port}, Err: syscall.ECONNREFUSED}
}

// Serves reports whether a port of a pod has a listener, or is forwarded.
func (h *Handlers) Serves(pod *corev1.Pod, port int32) bool {
	l, f := h.serves(pod, port)
	return l != nil || f != nil
}

// serves returns the listener of a port of a pod, or else its forward.
func (h *Handlers) serves(pod *corev1.Pod, port int32) (*listener, *forward) {
	if h == nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range slices.Backward(h.listeners) {
		if l.port == port && l.match.matchesPod(pod) {
			return l, nil
		}
	}
	for _, f := range slices.Backward(h.forwards) {
		if (f.port == port || f.port == 0) && f.match.matchesPod(pod) {
			return nil, f
		}
	}
	return nil, nil
}

// listener is the listener of a port of pods.
type listener struct {
	handlers  *Handlers
	match     matcher
	port      int32
	ofProcess bool
	conns     chan net.Conn
	once      sync.Once
	closed    chan struct{}
}

// Accept waits for a connection. It returns [net.ErrClosed] after Close.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Close removes the listener. Connections stay open.
func (l *listener) Close() error {
	err := error(net.ErrClosed)
	l.once.Do(func() {
		l.handlers.change(l.match.Selector, func() { l.handlers.listeners = without(l.handlers.listeners, l) })
		close(l.closed)
		err = nil
	})
	return err
}

// Addr returns the port.
func (l *listener) Addr() net.Addr { return address{port: l.port} }

// conn is a connection to a pod.
type conn struct {
	net.Conn
	local address
}

func (c *conn) LocalAddr() net.Addr { return c.local }

// address is the address of a port of a pod.
type address struct {
	namespace, pod string
	port           int32
}

func (a address) Network() string { return "tcp" }

func (a address) String() string {
	host := a.pod
	if a.namespace != "" {
		host += "." + a.namespace + ".pod"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(a.port)))
}

// matcher is a parsed Selector.
type matcher struct {
	Selector
	labels labels.Selector
}

func newMatcher(s Selector) (matcher, error) {
	parsed, err := labels.Parse(s.Labels)
	if err != nil {
		return matcher{}, errors.Join(errors.New("the selector of labels"), err)
	}
	return matcher{s, parsed}, nil
}

func (m *matcher) matchesPod(pod *corev1.Pod) bool {
	return (m.Namespace == "" || m.Namespace == pod.Namespace) && (m.Pod == "" || m.Pod == pod.Name) && m.labels.Matches(labels.Set(pod.Labels))
}

func (m *matcher) matches(pod *corev1.Pod, c *corev1.Container, command string) bool {
	return m.matchesPod(pod) && (m.Container == "" || m.Container == c.Name) && (m.Image == "" || Match(m.Image, c.Image)) &&
		(m.Command == "" || m.Command == command)
}

// Match reports whether a string matches a pattern as a whole, in which * matches any characters, slashes included.
func Match(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, head)
	if !ok || !star {
		return ok && s == ""
	}
	for {
		head, tail, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, head)
		}
		i := strings.Index(s, head)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(head):], tail
	}
}
