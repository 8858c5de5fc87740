package controlplane

import "flyball.dev/controllers"

// NoControllers is the list that selects no controller.
const NoControllers = controllers.None

// SelectControllers sets Controllers to the controllers of a list, with the syntax and the errors of [controllers.Options.Select]. The
// list [NoControllers] also sets WithoutControllers, and so does another one that selects none.
func (o *Options) SelectControllers(list string) error {
	return o.selected(o.Controllers.Select(list))
}

// SelectControllersByVariable is [Options.SelectControllers] for the list in the environment variable [controllers.Variable], or
// for the default list if the variable is not set or empty.
func (o *Options) SelectControllersByVariable(otherwise string) error {
	return o.selected(o.Controllers.SelectByVariable(otherwise))
}

// selected sets WithoutControllers after a selection without an error.
func (o *Options) selected(err error) error {
	if err == nil {
		o.WithoutControllers = len(o.Controllers.Without) == len(controllers.Names())
	}
	return err
}
