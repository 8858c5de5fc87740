package rules

import (
	"flyball.dev/vet/internal/operator"
)

// CreateRace reports Creates after a Get if AlreadyExists is an error like any other. The rule is off by
// default: most operators want to return that error and try again.
var CreateRace = rule("createrace", "a Create after a Get that does not handle AlreadyExists (off by default)", func(p createRacePass) {
	for _, f := range p.Functions {
		if !p.Reconciles(f) {
			continue
		}
		for i, create := range f.Calls {
			if create.Verb == "Create" && create.Subresource == "" && p.getsBefore(f.Calls[:i], create) &&
				!operator.MentionsAlreadyExists(f.Decl.Body) {
				p.report(create, "the Get may have read a cache that does not have the object yet: handle AlreadyExists")
			}
		}
	}
})

// createRacePass is a pass of the rule CreateRace.
type createRacePass struct{ *pass }

func (p createRacePass) getsBefore(calls []*operator.Call, create *operator.Call) bool {
	for _, get := range calls {
		if get.Verb != "Get" {
			continue
		}
		a, b := p.KindOf(get.Object), p.KindOf(create.Object)
		if a == nil && b == nil || a != nil && b != nil && a.Obj() == b.Obj() {
			return true
		}
	}
	return false
}
