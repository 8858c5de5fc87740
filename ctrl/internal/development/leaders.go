package development

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/config"
)

const (
	// foreignWrites is how many writes of the status of one kind, by the field manager of this process
	// but not by this process, mean that another process has the same controllers.
	foreignWrites = 3
	foreignWindow = 10 * time.Minute
)

// leaders counts the writes of the status of this operator's kinds by others with its name.
type leaders struct {
	kinds *bounded[schema.GroupKind, struct{}] // whose status controllers of this process write
	count map[schema.GroupKind]foreign
}

// foreign counts writes.
type foreign struct {
	count int
	since time.Time
}

func newLeaders() leaders {
	return leaders{newBounded[schema.GroupKind, struct{}](maxTracked), map[schema.GroupKind]foreign{}}
}

// checkLeaders warns of another process with the same controllers: it writes the same status by the
// same field manager. A write of the status alone is no other client of this process, such as a test.
func (m *Monitor) checkLeaders(c *change) {
	if c.by.own || !m.leaders.kinds.has(c.GroupKind) || !m.writes.uses(c.by.manager) || !c.within("status") {
		return
	}
	f := m.leaders.count[c.GroupKind]
	if time.Since(f.since) > foreignWindow {
		f = foreign{since: time.Now()}
	}
	f.count++
	m.leaders.count[c.GroupKind] = f
	if f.count != foreignWrites {
		return
	}
	m.warn(config.Warning{
		Check: config.CheckTwoLeaders, GVK: c.gvk, Object: c.NamespacedName, Field: "status",
		Writer: "another process or client, " + c.by.String(),
		Message: "Somebody else writes the status of this kind by the name of this operator: another replica seems to run " +
			"the same controllers. Set LeaderElection and LeaderElectionID in the options of the manager",
	})
}
