package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/observe"
)

// files are the templates and the assets.
//
//go:embed files
var files embed.FS

// pageError is an error with a message for the user.
type pageError struct {
	code    int
	message string
}

// Error implements error.
func (e *pageError) Error() string { return e.message }

// view is a page: the name of its template, and its data, which are the response of the API too.
type view struct {
	path, template, title string
	data                  func(*Console, *http.Request) (any, error)
}

var views = []view{
	{"", "now", "Now", func(c *Console, _ *http.Request) (any, error) { return c.now(), nil }},
	{"controller", "controller", "Controller", (*Console).queuePage},
	{"key", "key", "Request", (*Console).keyPage},
	{"reconcile", "reconcile", "Reconcile", (*Console).reconcilePage},
	{"chain", "chain", "Cause chain", (*Console).chainPage},
	{"object", "object", "Object", (*Console).objectPage},
	{"owners", "owners", "Owners", (*Console).ownersPage},
	{"caches", "caches", "Caches", func(c *Console, _ *http.Request) (any, error) { return c.caches(), nil }},
	{"warnings", "warnings", "Warnings", func(c *Console, _ *http.Request) (any, error) { return c.warnings(), nil }},
}

// routes returns the handler of the pages, which assumes that the request is permitted.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	})
	for _, v := range views {
		path := v.path
		if path == "" {
			path = "{$}"
		}
		mux.HandleFunc("GET /console/"+path, func(w http.ResponseWriter, r *http.Request) {
			data, err := v.data(c, r)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			c.page(w, r, v.template, http.StatusOK, data)
		})
		name := v.path
		if name == "" {
			name = "now"
		}
		mux.HandleFunc("GET /console/api/"+name, func(w http.ResponseWriter, r *http.Request) {
			data, err := v.data(c, r)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			writeJSON(w, http.StatusOK, data)
		})
	}
	mux.HandleFunc("POST /console/act", c.act)
	mux.HandleFunc("POST /console/api/act", c.act)
	mux.HandleFunc("GET /console/live", c.live)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &pageError{http.StatusNotFound, "There is no such page."})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, code int, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(data) // the client has gone
}

func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/console/api/") }

func wantsHTML(r *http.Request) bool {
	return !isAPI(r) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// fail responds with an error.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	if e, ok := errors.AsType[*pageError](err); ok {
		code = e.code
	}
	c.refuse(w, r, code, err.Error())
}

// refuse responds with a message.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, message string) {
	if isAPI(r) {
		writeJSON(w, code, map[string]any{"code": code, "message": message})
		return
	}
	c.page(w, r, "error", code, map[string]any{"Code": code, "Text": http.StatusText(code), "Message": message})
}

// asset returns the file that a request is for.
func asset(r *http.Request) (name string, ok bool) {
	name, ok = strings.CutPrefix(r.URL.Path, "/console/")
	return name, ok && (name == "style.css" || name == "console.js") && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "private, max-age=60")
	http.ServeFileFS(w, r, files, "files/"+name)
}

// pageData are the data of a template.
type pageData struct {
	Title    string
	Page     string
	Data     any
	Form     string // the secret of forms
	Back     string
	Warnings int
	SignedIn bool
}

// page renders a page. It is rendered as a whole before the first byte is sent.
func (c *Console) page(w http.ResponseWriter, r *http.Request, name string, code int, data any) {
	p := pageData{Page: name, Data: data, Form: c.formKey(r), Back: r.URL.RequestURI(), SignedIn: name != "login" && code != http.StatusUnauthorized}
	for _, v := range views {
		if v.template == name {
			p.Title = v.title
		}
	}
	if p.SignedIn {
		p.Warnings = len(c.recorder.Warnings())
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, p); err != nil {
		c.manager.GetLogger().Error(err, "The console could not render a page", "page", name)
		http.Error(w, "The page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"duration": Seconds.String, "ago": agoText, "bytes": bytesText, "clock": clockText, "stamp": stampText,
	"keyURL": keyURL, "controllerURL": controllerURL, "objectURL": objectURL, "reconcileURL": reconcileURL, "chainURL": chainURL,
	"plural": plural, "wrote": wroteText, "ownersURL": ownersURL, "add": func(a, b int) int { return a + b }, "sub": func(a, b int) int { return max(a-b, 0) },
	"rate":   rateText,
	"indent": func(depth int) string { return fmt.Sprint("d", min(depth, 12)) },
	"actor": func(p pageData, act, controller, request, label string) map[string]string {
		return map[string]string{"Form": p.Form, "Back": p.Back, "Act": act, "Controller": controller, "Request": request, "Label": label}
	},
	"with": func(p pageData, data any) map[string]any { return map[string]any{"P": p, "D": data} },
	"now":  time.Now,
}).ParseFS(files, "files/*.html"))

// rateText is a number of reconciles per second.
func rateText(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// agoText is how long ago a time was, or how long until it comes.
func agoText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := time.Since(t)
	switch {
	case d < -time.Second:
		return "in " + seconds((-d).Round(time.Second)).String()
	case d < time.Second:
		return "now"
	default:
		return seconds(d.Round(time.Second)).String() + " ago"
	}
}

func clockText(t time.Time) string { return t.Local().Format("15:04:05.000") }
func stampText(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000 MST") }

func bytesText(n any) string {
	var f float64
	switch n := n.(type) {
	case int:
		f = float64(n)
	case int64:
		f = float64(n)
	}
	switch {
	case f < 1<<10:
		return fmt.Sprintf("%.0f B", f)
	case f < 1<<20:
		return fmt.Sprintf("%.0f KiB", f/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", f/(1<<20))
	}
}

// wroteText says who made the change that a chain begins with, if there is more to say than its event.
func wroteText(by string) string {
	switch by {
	case bySomebody:
		return "By somebody else."
	case byForgotten:
		return "Who wrote it is forgotten."
	case byUnknown:
		return "Who wrote it is not known."
	}
	return ""
}

func plural(n any, one string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		return fmt.Sprintf("%v %sies", n, stem)
	}
	return fmt.Sprintf("%v %ss", n, one)
}

func pageURL(page string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return "/console/" + page + "?" + query.Encode()
}

func keyURL(controller, request string) string {
	return pageURL("key", "controller", controller, "request", request)
}
func controllerURL(name string) string   { return pageURL("controller", "name", name) }
func objectURL(kind, name string) string { return pageURL("object", "kind", kind, "name", name) }
func ownersURL(namespace string, offset int) string {
	return pageURL("owners", "namespace", namespace, "offset", fmt.Sprint(offset))
}
func reconcileURL(id uint64) string { return pageURL("reconcile", "id", fmt.Sprint(id)) }
func chainURL(id uint64) string     { return pageURL("chain", "reconcile", fmt.Sprint(id)) }

// controller returns the controller of a request.
func (c *Console) controller(name string) (*observe.Controller, error) {
	for _, observed := range c.recorder.Controllers() {
		if observed.ControllerName() == name {
			return observed, nil
		}
	}
	return nil, &pageError{http.StatusNotFound, fmt.Sprintf("There is no controller %q.", name)}
}

// number returns a number of the query, or the default.
func number(r *http.Request, name string, byDefault int) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, &pageError{http.StatusBadRequest, fmt.Sprintf("%s must be a number that is not negative, not %q.", name, clip(text, 100))}
	}
	return n, nil
}

// queuePage is the page of a controller.
func (c *Console) queuePage(r *http.Request) (any, error) {
	observed, err := c.controller(r.FormValue("name"))
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset", 0)
	if err != nil {
		return nil, err
	}
	if offset > maxOffset {
		return nil, &pageError{http.StatusBadRequest, fmt.Sprintf("offset must be at most %d. A later request is found by its name.", maxOffset)}
	}
	limit, err := number(r, "limit", queueRows)
	if err != nil {
		return nil, err
	}
	v := Queue{
		Controller: controllerOf(observed), Offset: offset, Limit: min(limit, queueRows), MaxOffset: maxOffset,
		ReadyKeys: []Queued{}, WaitKeys: []Queued{}, Recent: []Reconcile{},
	}
	q, _ := observed.Queue(v.Offset, v.Limit)
	o := c.origins(slices.Concat(q.ReadyKeys, q.WaitingKeys)...)
	for _, k := range q.ReadyKeys {
		v.ReadyKeys = append(v.ReadyKeys, queuedOf(k, "ready", o))
	}
	for _, k := range q.WaitingKeys {
		v.WaitKeys = append(v.WaitKeys, queuedOf(k, "waiting", o))
	}
	v.Controller.Active, v.Controller.MoreActive = c.active(observed, runningRows, o)
	v.Controller.fit(runningRows)
	for i := len(o.runs) - 1; i >= 0 && len(v.Recent) < recentRows; i-- {
		if run := o.runs[i]; run.Ended && run.Controller == v.Controller.Name {
			v.Recent = append(v.Recent, c.summary(run, o))
		}
	}
	return v, nil
}

// Key describes a request.
type Key struct {
	Controller string      `json:"controller"`
	Request    string      `json:"request"`
	Kind       string      `json:"kind,omitempty"`
	Queue      *Queued     `json:"queue"` // null if the request is not queued
	Paused     bool        `json:"paused"`
	AllPaused  bool        `json:"controllerPaused"`
	Stopped    bool        `json:"controllerStopped,omitempty"`
	Retries    int         `json:"retries"`
	Reconciles []Reconcile `json:"reconciles"` // the newest first
	// More is how many earlier reconciles of the request are recorded, and Forgotten how many reconciles of the whole
	// controller are not any more.
	More      int     `json:"more,omitempty"`
	Forgotten uint64  `json:"forgotten,omitempty"`
	Object    *Object `json:"object,omitempty"`
	Tree      *Owned  `json:"tree,omitempty"`
	// Unread is how many objects of the caches were not looked at for the tree.
	Unread int `json:"unread,omitempty"`
}

// Last returns the identifier of the earliest reconcile that is shown.
func (k *Key) Last() uint64 {
	if len(k.Reconciles) == 0 {
		return 0
	}
	return k.Reconciles[len(k.Reconciles)-1].ID
}

// keyPage is the page of a request.
func (c *Console) keyPage(r *http.Request) (any, error) {
	observed, err := c.controller(r.FormValue("controller"))
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", 20)
	if err != nil {
		return nil, err
	}
	before, err := number(r, "before", math.MaxInt)
	if err != nil {
		return nil, err
	}
	v := c.key(observed, r.FormValue("request"), min(limit, timelineRows), uint64(before))
	gvk := observed.Kind()
	if gvk.Kind == "" {
		return v, nil
	}
	key := parseName(v.Request)
	v.Object = c.object(r.Context(), gvk, key)
	v.Object.fit(objectRows)
	v.Tree, v.Unread = c.treeOf(gvk, types.UID(v.Object.UID), key.Namespace)
	if v.Queue == nil && len(v.Reconciles) == 0 && v.Object.UID == "" {
		return nil, &pageError{http.StatusNotFound, fmt.Sprintf(
			"Controller %s has no record of %q: it is not queued, no reconcile of it is retained, and there is no such object.", v.Controller, v.Request)}
	}
	return v, nil
}

func parseName(text string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(text, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: text}
}

// key describes a request, without its object, with up to limit reconciles before one.
func (c *Console) key(observed *observe.Controller, request string, limit int, before uint64) *Key {
	v := &Key{
		Controller: observed.ControllerName(), Request: request, Kind: kindText(observed.Kind()), Reconciles: []Reconcile{},
		Stopped: observed.Stopped(), Forgotten: observed.Stats().Forgotten,
	}
	q, state, ok := observed.Find(request)
	o := c.origins(q)
	if ok {
		queued := queuedOf(q, state, o)
		v.Queue = &queued
	}
	all, held := observed.Held()
	v.AllPaused = all
	for _, name := range held {
		v.Paused = v.Paused || name == request
	}
	v.Retries = observed.Retries(request)
	rows := timelineRows
	for i := len(o.runs) - 1; i >= 0; i-- {
		run := o.runs[i]
		if run.ID >= before || run.Controller != v.Controller || run.Request() != request {
			continue
		}
		if len(v.Reconciles) == limit || rows <= 0 {
			v.More++
			continue
		}
		r := c.reconcile(run, o, rows)
		v.Reconciles, rows = append(v.Reconciles, r), rows-r.rows()
	}
	return v
}

// unrecorded is the error of a reconcile without a record.
func (c *Console) unrecorded(id int) error {
	text := fmt.Sprintf("There is no record of reconcile %d: the oldest are forgotten.", id)
	if id < 1 || uint64(id) > c.recorder.Begun() {
		text = fmt.Sprintf("There is no reconcile %d.", id)
	}
	return &pageError{http.StatusNotFound, text}
}

// reconcilePage is the page of one reconcile.
func (c *Console) reconcilePage(r *http.Request) (any, error) {
	id, err := number(r, "id", 0)
	if err != nil {
		return nil, err
	}
	o := c.origins()
	for _, run := range o.runs {
		if run.ID == uint64(id) {
			return c.reconcile(run, o, maxRows), nil
		}
	}
	return nil, c.unrecorded(id)
}

// chainPage is the page of a cause chain.
func (c *Console) chainPage(r *http.Request) (any, error) {
	id, err := number(r, "reconcile", 0)
	if err != nil {
		return nil, err
	}
	chain, ok := c.chain(uint64(id))
	if !ok {
		return nil, c.unrecorded(id)
	}
	return chain, nil
}

// ownersPage is the page of the trees of owners.
func (c *Console) ownersPage(r *http.Request) (any, error) {
	offset, err := number(r, "offset", 0)
	if err != nil {
		return nil, err
	}
	return c.owners(r.FormValue("namespace"), offset), nil
}

// ObjectPage is an object with its tree and the reconciles that wrote it.
type ObjectPage struct {
	Object *Object     `json:"object"`
	Tree   *Owned      `json:"tree,omitempty"`
	Unread int         `json:"unread,omitempty"` // as in Key
	Writes []WrittenBy `json:"writes"`           // the newest first
	More   int         `json:"moreWrites,omitempty"`
}

// WrittenBy is a write with its reconcile.
type WrittenBy struct {
	Reconcile  uint64    `json:"reconcile"`
	Controller string    `json:"controller"`
	Request    string    `json:"request"`
	Time       time.Time `json:"time"`
	Write      Write     `json:"write"`
}

// objectPage is the page of an object.
func (c *Console) objectPage(r *http.Request) (any, error) {
	gvk, namespaced, err := c.resolve(r.FormValue("kind"))
	if err != nil {
		return nil, err
	}
	key := parseName(r.FormValue("name"))
	if !namespaced {
		key.Namespace = ""
	}
	if key.Name == "" || strings.Contains(key.Name, "/") || namespaced && key.Namespace == "" {
		return nil, &pageError{http.StatusBadRequest, "The name of an object is NAMESPACE/NAME, or NAME if it is in no namespace."}
	}
	v := &ObjectPage{Object: c.object(r.Context(), gvk, key), Writes: []WrittenBy{}}
	v.Object.fit(objectRows)
	v.Tree, v.Unread = c.treeOf(gvk, types.UID(v.Object.UID), key.Namespace)
	o := c.origins()
	for i := len(o.runs) - 1; i >= 0; i-- {
		run := o.runs[i]
		for j := len(run.Writes) - 1; j >= 0; j-- {
			switch w := run.Writes[j]; {
			case w.Key != key || w.Type.GVK.GroupKind() != gvk.GroupKind():
			case len(v.Writes) == timelineRows:
				v.More++
			default:
				v.Writes = append(v.Writes, WrittenBy{run.ID, run.Controller, run.Request(), run.Started.Add(w.At), writeOf(w)})
			}
		}
	}
	return v, nil
}
