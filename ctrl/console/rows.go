package console

// maxRows is how many rows a page has at most: controllers, requests, reconciles, reads, writes, log lines, objects of
// trees, finalizers, conditions, events, fields, informers and warnings. A page says how many more there are.
const maxRows = 200

// The parts of the pages that have several lists.
const (
	queueRows    = 60 // of the ready requests, and of the waiting ones
	recentRows   = 30
	runningRows  = maxRows - 2*queueRows - recentRows
	timelineRows = 100
	treeRows     = 40
	objectRows   = maxRows - timelineRows - treeRows
	chainRows    = maxRows / 2 // the graph and the list have the same steps
)

// maxOffset is the greatest offset in a queue. The work that a queue does for a page grows with the offset.
const maxOffset = 10 * maxRows

// share divides rows among lists: a list that is short gets all that it wants, and the long ones get equal parts of the
// rest.
func share(rows int, wants ...int) []int {
	got := make([]int, len(wants))
	for more := true; more; {
		more = false
		for i, want := range wants {
			if rows > 0 && got[i] < want {
				got[i]++
				rows--
				more = true
			}
		}
	}
	return got
}

// cut shortens a list to n elements, and adds the number of the others to more.
func cut[T any](list *[]T, n int, more *int) {
	if over := len(*list) - n; over > 0 {
		*list = (*list)[:n]
		*more += over
	}
}

// fit cuts the lists of a controller to a number of rows.
func (c *Controller) fit(rows int) {
	got := share(rows, len(c.Active), len(c.PausedRequests), len(c.ByPriority))
	cut(&c.Active, got[0], &c.MoreActive)
	cut(&c.PausedRequests, got[1], &c.MorePaused)
	cut(&c.ByPriority, got[2], &c.MorePriorities)
}

// rows is how many rows the lists of a controller have.
func (c *Controller) rows() int { return len(c.Active) + len(c.PausedRequests) + len(c.ByPriority) }

// fit cuts the lists of all controllers.
func (n *Now) fit() {
	cut(&n.Controllers, maxRows, &n.More)
	wants := make([]int, len(n.Controllers))
	for i := range n.Controllers {
		wants[i] = n.Controllers[i].rows()
	}
	for i, rows := range share(maxRows-len(wants), wants...) {
		n.Controllers[i].fit(rows)
	}
}

// fit cuts the lists of an object to a number of rows.
func (v *Object) fit(rows int) {
	got := share(rows, len(v.Finalizers), len(v.Conditions), len(v.Events), len(v.Fields))
	cut(&v.Finalizers, got[0], &v.MoreFinalizers)
	cut(&v.Conditions, got[1], &v.MoreConditions)
	cut(&v.Events, got[2], &v.MoreEvents)
	cut(&v.Fields, got[3], &v.MoreFields)
}
