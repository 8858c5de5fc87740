package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
)

// The types of this file are the data of the pages and of the API. docs/console.md describes them. Durations are in
// seconds.

// Seconds is a duration.
type Seconds float64

func seconds(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// String returns the duration with three digits.
func (s Seconds) String() string {
	d := time.Duration(float64(s) * float64(time.Second))
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// Now is the state of all controllers.
type Now struct {
	Started     time.Time    `json:"started"`
	LogLevel    int          `json:"logLevel"`
	RecordBytes int64        `json:"recordBytes"`
	Warnings    int          `json:"warnings"`
	Controllers []Controller `json:"controllers"`
	More        int          `json:"more,omitempty"` // controllers that are not shown
}

// Busy returns the controllers with something to show: work, errors, a pause, or a reconcile in the last minute. If there
// are few, it returns all. Otherwise the ones with the most to do go first.
func (n Now) Busy() []Controller {
	if len(n.Controllers) <= fewControllers {
		return n.Controllers
	}
	busy := slices.DeleteFunc(slices.Clone(n.Controllers), Controller.idle)
	slices.SortStableFunc(busy, func(a, b Controller) int {
		return cmp.Or(cmp.Compare(b.Ready+b.Processing, a.Ready+a.Processing), cmp.Compare(b.Errors, a.Errors), cmp.Compare(b.Rate, a.Rate))
	})
	return busy
}

// Idle returns the other controllers.
func (n Now) Idle() []Controller {
	if len(n.Controllers) <= fewControllers {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Controllers), func(c Controller) bool { return !c.idle() })
}

// fewControllers is how many controllers are shown with all figures, also when they are idle.
const fewControllers = 6

func (c Controller) idle() bool {
	return c.Ready == 0 && c.Waiting == 0 && c.Processing == 0 && c.Rate == 0 && c.Errors == 0 && !c.Paused && len(c.PausedRequests) == 0
}

// Done returns how many reconciles have ended.
func (c Controller) Done() (n uint64) {
	for _, total := range c.Totals {
		n += total
	}
	return n
}

// Controller is the state of a controller.
type Controller struct {
	Name           string            `json:"name"`
	Kind           string            `json:"kind,omitempty"`
	Started        bool              `json:"started"`
	Stopped        bool              `json:"stopped,omitempty"`
	Paused         bool              `json:"paused"`
	PausedRequests []string          `json:"pausedRequests,omitempty"`
	Workers        int               `json:"workers"`
	Ready          int               `json:"ready"`
	Waiting        int               `json:"waiting"`
	Processing     int               `json:"processing"`
	ByPriority     []Priority        `json:"byPriority,omitempty"`
	Oldest         Seconds           `json:"oldestSeconds"`
	Totals         map[string]uint64 `json:"totals"`
	Errors         uint64            `json:"errors"`
	Rate           float64           `json:"ratePerSecond"`
	P50            Seconds           `json:"p50Seconds"`
	P99            Seconds           `json:"p99Seconds"`
	History        []Point           `json:"history,omitempty"`
	Recorded       int               `json:"recorded"`
	Forgotten      uint64            `json:"forgotten"`
	Active         []Reconcile       `json:"active,omitempty"`
	// How many more there are.
	MoreActive     int `json:"moreActive,omitempty"`
	MorePaused     int `json:"morePaused,omitempty"`
	MorePriorities int `json:"morePriorities,omitempty"`
}

// Point is what a controller did in five seconds.
type Point struct {
	Reconciles int     `json:"reconciles"`
	P50        Seconds `json:"p50Seconds"`
	P99        Seconds `json:"p99Seconds"`
}

// Priority is how many ready requests have a priority.
type Priority struct {
	Priority int `json:"priority"`
	Requests int `json:"requests"`
}

// Queue is a page of the queue of a controller.
type Queue struct {
	Controller Controller  `json:"controller"`
	Offset     int         `json:"offset"`
	Limit      int         `json:"limit"`
	MaxOffset  int         `json:"maxOffset"`
	ReadyKeys  []Queued    `json:"readyRequests"`
	WaitKeys   []Queued    `json:"waitingRequests"`
	Recent     []Reconcile `json:"recent"`
}

// Queued is a request in a queue.
type Queued struct {
	Request  string    `json:"request"`
	State    string    `json:"state"` // ready, waiting, processing or paused
	Priority int       `json:"priority"`
	Since    time.Time `json:"since,omitzero"`
	Due      time.Time `json:"due,omitzero"`
	Again    bool      `json:"again,omitempty"`
	Causes   []Cause   `json:"causes,omitempty"`
	Total    int       `json:"causesTotal,omitempty"`
}

// Cause is a cause of a reconcile.
type Cause struct {
	Event   string `json:"event"`
	Kind    string `json:"kind,omitempty"`
	Object  string `json:"object,omitempty"`
	Version string `json:"resourceVersion,omitempty"`
	Changed string `json:"changed,omitempty"`
	// Origin is the reconcile that wrote the object, if it is one of this manager that is recorded.
	Origin *Origin `json:"origin,omitempty"`
	// By says who wrote the object: reconcile, somebody else, forgotten if a reconcile may have that is not recorded any
	// more, or unknown if the record does not tell. It is empty for a cause that is no write.
	By string `json:"by,omitempty"`
}

// Origin refers to a reconcile.
type Origin struct {
	Reconcile  uint64 `json:"reconcile"`
	Controller string `json:"controller"`
	Request    string `json:"request"`
}

// Reconcile is a reconcile.
type Reconcile struct {
	ID           uint64    `json:"id"`
	Controller   string    `json:"controller"`
	Request      string    `json:"request"`
	Started      time.Time `json:"started"`
	Running      bool      `json:"running,omitempty"`
	Took         Seconds   `json:"tookSeconds"`
	Waited       Seconds   `json:"waitedSeconds"`
	Priority     int       `json:"priority"`
	Causes       []Cause   `json:"causes,omitempty"`
	CausesTotal  int       `json:"causesTotal"`
	Result       string    `json:"result,omitempty"`
	RequeueAfter Seconds   `json:"requeueAfterSeconds,omitempty"`
	Conflict     bool      `json:"conflict,omitempty"`
	Error        string    `json:"error,omitempty"`
	Reads        []Read    `json:"reads,omitempty"`
	Writes       []Write   `json:"writes,omitempty"`
	Lines        []Line    `json:"lines,omitempty"`
	NotRecorded  []string  `json:"notRecorded,omitempty"`
	NotShown     []string  `json:"notShown,omitempty"`
}

// rows is how many rows a reconcile has.
func (r *Reconcile) rows() int { return 1 + len(r.Reads) + len(r.Writes) + len(r.Lines) }

// Read is a read of a reconcile.
type Read struct {
	At       Seconds `json:"atSeconds"`
	Verb     string  `json:"verb"` // get or list
	Kind     string  `json:"kind"`
	Object   string  `json:"object,omitempty"` // of a list, the namespace
	Selector string  `json:"selector,omitempty"`
	Version  string  `json:"resourceVersion,omitempty"`
	Items    int     `json:"items,omitempty"`
	From     string  `json:"from"` // cache or server
	Contact  Seconds `json:"contactSeconds,omitempty"`
	NoWatch  bool    `json:"noWatch,omitempty"`
	Took     Seconds `json:"tookSeconds"`
	Error    string  `json:"error,omitempty"`
	NotFound bool    `json:"notFound,omitempty"`
}

// Write is a write of a reconcile.
type Write struct {
	At          Seconds  `json:"atSeconds"`
	Verb        string   `json:"verb"`
	SubResource string   `json:"subresource,omitempty"`
	Kind        string   `json:"kind"`
	Object      string   `json:"object,omitempty"`
	Version     string   `json:"resourceVersion,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	Took        Seconds  `json:"tookSeconds"`
	Error       string   `json:"error,omitempty"`
	Changes     []Change `json:"changes,omitempty"`
	More        int      `json:"moreChanges,omitempty"`
	// Unknown says why there are no changes, if they are not known.
	Unknown string `json:"unknown,omitempty"`
}

// Change is a field that a write changed.
type Change struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Line is a log line of a reconcile.
type Line struct {
	At      Seconds `json:"atSeconds"`
	Level   string  `json:"level"` // error, info or a number
	Message string  `json:"message"`
	Values  string  `json:"values,omitempty"`
}

func kindText(gvk schema.GroupVersionKind) string {
	if gvk.Kind == "" {
		return ""
	}
	return gvk.GroupKind().String()
}

// controllerOf returns the state of a controller.
func controllerOf(c *observe.Controller) Controller {
	stats := c.Stats()
	v := Controller{
		Name: c.ControllerName(), Kind: kindText(c.Kind()), Workers: c.MaxWorkers(), Totals: stats.Totals, Errors: stats.Errors,
		Rate: stats.Rate, P50: seconds(stats.P50), P99: seconds(stats.P99), Recorded: stats.Recorded, Forgotten: stats.Forgotten,
	}
	for _, p := range stats.History {
		v.History = append(v.History, Point{p.Reconciles, seconds(p.P50), seconds(p.P99)})
	}
	v.Paused, v.PausedRequests = c.Held()
	v.Stopped = c.Stopped()
	q, ok := c.Queue(0, 0)
	v.Started, v.Ready, v.Waiting, v.Processing, v.Oldest = ok, q.Ready, q.Waiting, q.Processing, seconds(q.Oldest)
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(q.Depth))) {
		if n := q.Depth[priority]; n > 0 {
			v.ByPriority = append(v.ByPriority, Priority{priority, n})
		}
	}
	return v
}

// now returns the state of all controllers.
func (c *Console) now() Now {
	n := Now{
		Started: c.started, LogLevel: c.recorder.Level(), RecordBytes: c.recorder.Size(), Warnings: len(c.recorder.Warnings()),
		Controllers: []Controller{},
	}
	for _, observed := range c.recorder.Controllers() {
		v := controllerOf(observed)
		v.Active, v.MoreActive = c.active(observed, maxRows, nil)
		n.Controllers = append(n.Controllers, v)
	}
	slices.SortStableFunc(n.Controllers, func(a, b Controller) int { return cmp.Compare(a.Name, b.Name) })
	n.fit()
	return n
}

// active returns up to so many running reconciles of a controller, the longest first, and how many more there are.
func (c *Console) active(observed *observe.Controller, rows int, o *origins) (all []Reconcile, more int) {
	runs := observed.Active()
	cut(&runs, rows, &more)
	for _, run := range runs {
		all = append(all, c.summary(run.Copy(), o))
	}
	return all, more
}

// queuedOf returns a request in a queue.
func queuedOf(q observe.Queued, state string, o *origins) Queued {
	return Queued{
		Request: q.Request, State: state, Priority: q.Priority, Since: q.Since, Due: q.Due, Again: q.Again,
		Causes: causesOf(q.Causes, func(why cause.Cause) (*observe.Run, string) { return o.of(why, time.Now()) }),
		Total:  q.Causes.Total,
	}
}

// causesOf describes causes, with the reconciles that are their origins.
func causesOf(causes cause.Causes, origin func(cause.Cause) (*observe.Run, string)) (all []Cause) {
	for _, why := range causes.List {
		c := causeOf(why)
		run, by := origin(why)
		if run != nil {
			c.Origin = &Origin{run.ID, run.Controller, run.Request()}
		}
		c.By = by
		all = append(all, c)
	}
	return all
}

// causeOf describes a cause without its origin.
func causeOf(why cause.Cause) Cause {
	c := Cause{Event: why.Kind.String(), Kind: kindText(why.GVK), Version: why.ResourceVersion, Changed: why.Changed}
	if why.Object.Name != "" {
		c.Object = observe.NameText(why.Object)
	}
	return c
}

// summary returns a reconcile without its reads, writes and lines.
func (c *Console) summary(run observe.Copy, o *origins) Reconcile {
	v := Reconcile{
		ID: run.ID, Controller: run.Controller, Request: run.Request(), Started: run.Started, Running: !run.Ended,
		Took: seconds(run.Took), Waited: seconds(run.Causes.Waited), Priority: run.Priority,
		Causes:      causesOf(run.Causes, func(why cause.Cause) (*observe.Run, string) { return o.before(run, why) }),
		CausesTotal: run.Causes.Total,
		Result:      run.Result, RequeueAfter: seconds(run.After), Conflict: run.Conflict, Error: clip(run.Err, 2000),
	}
	if v.Running {
		v.Took = seconds(time.Since(run.Started))
	}
	return v
}

// reconcile returns a reconcile with its records, in at most so many rows.
func (c *Console) reconcile(run observe.Copy, o *origins, rows int) Reconcile {
	v := c.summary(run, o)
	var more [3]int
	got := share(rows-1, len(run.Reads), len(run.Writes), len(run.Lines))
	cut(&run.Reads, got[0], &more[0])
	cut(&run.Writes, got[1], &more[1])
	cut(&run.Lines, got[2], &more[2])
	for _, read := range run.Reads {
		v.Reads = append(v.Reads, readOf(read))
	}
	for _, write := range run.Writes {
		v.Writes = append(v.Writes, writeOf(write))
	}
	for _, line := range run.Lines {
		level := fmt.Sprint(line.Level)
		switch line.Level {
		case -1:
			level = "error"
		case 0:
			level = "info"
		}
		v.Lines = append(v.Lines, Line{seconds(line.At), level, line.Message, line.Values})
	}
	if run.Packed {
		v.NotRecorded = append(v.NotRecorded, "Reads and log lines of an earlier reconcile")
	}
	for i, what := range []string{"reads", "writes", "log lines"} {
		if n := run.Dropped[i]; n > 0 {
			v.NotRecorded = append(v.NotRecorded, fmt.Sprintf("%d more %s", n, what))
		}
		if more[i] > 0 {
			v.NotShown = append(v.NotShown, fmt.Sprintf("%d more %s", more[i], what))
		}
	}
	return v
}

func readOf(r observe.Read) Read {
	v := Read{
		At: seconds(r.At), Verb: "get", Kind: kindText(r.Type.GVK), Object: observe.NameText(r.Key), Selector: r.Selection,
		Version: r.Version, Items: r.Items, From: "server", NoWatch: r.NoWatch, Took: seconds(r.Took),
		Error: r.Err, NotFound: r.NotFound,
	}
	if r.List {
		v.Verb, v.Object = "list", r.Key.Namespace
	}
	if r.Cached {
		v.From, v.Contact = "cache", seconds(r.Contact)
	}
	return v
}

func writeOf(w observe.Write) Write {
	v := Write{
		At: seconds(w.At), Verb: w.Verb, SubResource: w.SubResource, Kind: kindText(w.Type.GVK), Object: observe.NameText(w.Key),
		Version: w.Version, DryRun: w.DryRun, Took: seconds(w.Took), Error: w.Err,
	}
	if v.Object == "" {
		v.Object = w.Key.Namespace
	}
	v.Changes, v.More, v.Unknown = changesOf(w)
	return v
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
