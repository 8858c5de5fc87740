package development

import (
	"time"

	"flyball.dev/ctrl/config"
)

const (
	// foreignWrites is how often others have to write the status of an object in turn with this
	// process, by its field manager: then another process has the same controllers.
	foreignWrites = 3
	foreignWindow = 10 * time.Minute
)

// leaders counts the writes of the status by others with the name of this operator. It does so by
// object, as shards of an operator have objects of their own; and only in turn, as an object may move
// to another shard or leader.
type leaders struct {
	turns *bounded[objectID, foreignTurns] // of the objects with a status that controllers of this process write
}

// foreignTurns counts the turns of others at the status of an object.
type foreignTurns struct {
	count   int
	foreign bool // whether the last write was by another
	since   time.Time
}

func newLeaders() leaders { return leaders{newBounded[objectID, foreignTurns](maxTracked)} }

// wrote records that a controller of this process has written the status of an object.
func (l *leaders) wrote(id objectID) {
	f, ok := l.turns.get(id)
	if !ok || f.foreign {
		f.foreign = false
		l.turns.put(id, f)
	}
}

// checkLeaders warns of another process with the same controllers: it writes the same status by the
// same field manager. A write of the status alone is no other client of this process, such as a test.
func (m *Monitor) checkLeaders(c *change) {
	f, ok := m.leaders.turns.get(c.objectID)
	if c.by.own || !ok || f.foreign || !m.writes.uses(c.by.manager) || !c.within("status") {
		return
	}
	if time.Since(f.since) > foreignWindow {
		f = foreignTurns{since: time.Now()}
	}
	f.count, f.foreign = f.count+1, true
	m.leaders.turns.put(c.objectID, f)
	if f.count != foreignWrites {
		return
	}
	m.warn(config.Warning{
		Check: config.CheckTwoLeaders, GVK: c.gvk, Object: c.NamespacedName, Field: "status",
		Writer: "another process or client, " + c.by.String(),
		Message: "Somebody else writes the status of this object in turn, by the name of this operator: another replica seems to run " +
			"the same controllers. Set LeaderElection and LeaderElectionID in the options of the manager",
	})
}
