// Package plan says what an operator would do to a cluster, before anybody lets it.
//
// [Make] forks the state of a cluster, as a [record.Moment] has it, into a control plane in this process, with its definitions,
// roles, webhooks and policies. It starts the operator there, unmodified, makes a change, and waits until nothing changes any
// more. The [Plan] has the objects that were created, changed and deleted, in order, with who wrote them and why. The cluster
// itself is not touched: all requests of the operator go to the fork.
//
// # Who and why
//
// The author of a write comes from the API server of the fork: the user of the request, the client that it names, and for
// clients of this process the controller's causes. Nothing is derived from names of field managers.
//
// # What a plan does not know
//
// [Plan.Unknown] lists it: resources that could not be read, webhooks and external systems that were not called, what
// controllers that did not run would do. Two further runs of the same plan, at other times and with the writes of clients in
// other orders, find what depends on chance, time and the order of events: values that differ are unknown in the changes, and
// objects that the runs do not change in the same way are [Change.Uncertain].
//
// # Time
//
// [Run], for tests, makes plans of operators of this process in virtual time. Make itself uses the time that there is: with a
// program, it waits until nothing has changed for some seconds.
//
// # Structure
//
//	record.ReadCluster or record.ReadMoment → restore.Storage → ledger → controlplane → operator
//
// A plan has one world for each run. The moment becomes a storage in memory, with the UIDs and resource versions of the
// cluster. Before that, moment.go takes out what the fork cannot have: webhooks that nobody reaches match nothing,
// extension API servers are left out, and owners that could not be read become objects with an identity alone.
//
// The ledger is that storage with a note of the author of each revision. The context of a request reaches the storage,
// and has the user, the verb, the ID of the audit event and, for clients in the process, the causes of the reconcile.
// An audit log in memory adds the client's name, and the refused writes. The events of the storage's history, with the
// states before and after, are the changes: their number, not the size of the cluster, decides what a plan costs after
// the fork.
//
// A run has three phases: the controllers of Kubernetes start, the operator starts, the change is made. Each ends when
// no object has changed for a while. An object that is written more than a thousand times in a phase, or that still
// changes at the limit, is a loop. Package canonical compares two runs, as in the lab, and the fields in which they
// differ are unknown.
package plan

import (
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/manager"
	"flyball.dev/lab"
	"flyball.dev/record"
)

// Options say what to plan.
type Options struct {
	// Moment is the state of the cluster: from record.ReadCluster, or from record.ReadMoment. It is not changed.
	Moment *record.Moment
	// Operator makes the changes. Without one, the plan has what the controllers of Kubernetes would do.
	Operator Operator
	// From, if it starts something, is the version of the operator that runs before: the plan has what Operator would do after
	// an upgrade.
	From Operator
	// Install has the steps before any operator starts, such as its definitions, with all rights. The plan names only the ones that fail.
	Install []lab.Step
	// Change has the steps of somebody else, in order. Without a change and From, the plan has the effects of the start of Operator.
	Change []lab.Step
	// User is who makes the change; the default is the user "user" with all rights.
	User User
	// AllowNet permits connections to webhooks and calls of external systems. By default they are refused. See also
	// Operator.Shut.
	AllowNet bool
	// Rest is how long nothing must change until the plan is complete. The default is 5 seconds, and in [Run] 2 minutes.
	Rest time.Duration
	// Limit is how long to wait for that, for the preparation and again for the change. The default is 2 minutes, and in [Run]
	// an hour.
	Limit time.Duration
	// Once leaves out the further runs, which find what depends on chance, time and the order of events. With a program, which
	// listens on ports, there is only one run.
	Once bool
	// Without are controllers of Kubernetes that do not run, by the names of kube-controller-manager, besides the ones of
	// [NotRunning].
	Without []string
	// Unknown is added to the list of the plan: known gaps of the moment.
	Unknown []Unknown

	virtual bool // time is
}

// User is an identity. The zero value is a user with all rights.
type User struct {
	Name   string
	Groups []string
}

// Operator is the program that the plan is about. At most one of Start and Program is set.
type Operator struct {
	// User is the identity of the operator, such as its service account.
	User User
	// Start returns a manager with the controllers of an operator in this process. The plan starts the manager.
	Start func(config *rest.Config) (manager.Manager, error)
	// Program starts an operator that is a process of its own.
	Program func(access lab.Access) (lab.Running, error)
	// Shut reports whether external systems are out of reach of the Program, and the reason if they are not. Systems that an
	// operator of this process calls with lab.Call or lab.Transport are, unless Options.AllowNet.
	Shut func() error
}

func (o *Operator) exists() bool { return o.Start != nil || o.Program != nil }

// Action is a kind of change.
type Action string

// The actions. A replaced object was deleted, and created again with the same name.
const (
	Create  Action = "create"
	Update  Action = "update"
	Delete  Action = "delete"
	Replace Action = "replace"
)

// Plan has the changes that would happen.
type Plan struct {
	// Source describes the cluster.
	Source string `json:"source,omitempty"`
	// Steps are the parts of the change, after the parts of the installation that failed.
	Steps []StepResult `json:"steps,omitempty"`
	// Changes are the objects that differ at the end, in the order of the first write of each.
	Changes []Change `json:"changes"`
	// Drift are the objects that the operator has changed before the change, when it started.
	Drift []Change `json:"drift,omitempty"`
	// Refused are the writes that the API server has refused to the operator and to controllers.
	Refused []Refusal `json:"refused,omitempty"`
	// Loops are the objects that were still changing at the end. The plan is not complete then.
	Loops []Loop `json:"loops,omitempty"`
	// Unknown has the gaps of the plan.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Different reports whether the plan has a change, or is not complete.
func (p *Plan) Different() bool {
	if len(p.Changes) > 0 || len(p.Loops) > 0 {
		return true
	}
	for _, s := range p.Steps {
		if s.Error != "" {
			return true
		}
	}
	return false
}

// StepResult is the result of a step.
type StepResult struct {
	Name string `json:"name"`
	// Error is the API server's error, if it has refused the step, and Reason its reason, such as Conflict.
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Change is the change of an object.
type Change struct {
	Action     Action `json:"action"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	// Name is the name. A name that the API server generates is the prefix with an asterisk.
	Name string `json:"name"`
	// Owner is the controller of the object, as KIND/NAME.
	Owner string `json:"owner,omitempty"`
	// Writes are the writes that have led to the change, in order. Equal writes that follow each other are one.
	Writes []Write `json:"writes,omitempty"`
	// Fields are the fields that differ, of an object that is there before and after.
	Fields []Field `json:"fields,omitempty"`
	// Object is the content of a new object, without what the API server adds to each object. A value that the plan does not know
	// is the text of [UnknownValue], and the data of a Secret the text of [SensitiveValue].
	Object map[string]any `json:"object,omitempty"`
	// Uncertain says that the order of events, or chance, decides about the change: the runs of the plan do not change the object
	// in the same way.
	Uncertain bool `json:"uncertain,omitempty"`

	brief bool // a controller of Kubernetes has made it
}

// Field is a field that differs. A nil value means that the field is not there.
type Field struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// The texts instead of values.
const (
	UnknownValue   = "(unknown)"
	SensitiveValue = "(sensitive)"
)

// Write says who has written, and why.
type Write struct {
	Verb string `json:"verb"` // create, update, patch or delete, with the subresource, or admission
	User string `json:"user"`
	// Client is the program as it names itself to the API server, and empty if it does not.
	Client string `json:"client,omitempty"`
	// Because has the causes of the reconcile that has written. Only clients in this process have them.
	Because string `json:"because,omitempty"`
	Times   int    `json:"times,omitempty"` // if there are several
}

// Refusal is a write that the API server has refused.
type Refusal struct {
	Write
	Object  string `json:"object"` // resource, namespace and name
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Loop is an object that was still changing at the end.
type Loop struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name"`
	Writes     []Write `json:"writes"`
	// Fields are the fields that the last writes have changed, with the last two values.
	Fields []Field `json:"fields"`
}

// Unknown is a gap of the plan.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}
