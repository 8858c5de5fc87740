package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Make makes a plan. It returns an error, and no plan, if the moment cannot be served, if the operator does not start or ends by
// itself, or if ctx ends. What the API server of the fork refuses is part of the plan. Make leaves nothing running.
func Make(ctx context.Context, o Options) (*Plan, error) { return makePlan(ctx, o, false) }

// makePlan makes a plan, in virtual time or not.
func makePlan(ctx context.Context, o Options, virtual bool) (*Plan, error) {
	if err := o.check(virtual); err != nil {
		return nil, err
	}
	s, err := newSource(o.Moment, o.AllowNet)
	if err != nil {
		return nil, err
	}
	p, err := runOnce(ctx, &o, newOrder(everyAtOnce, o.Rest), s)
	if err != nil {
		return nil, err
	}
	if !o.Once && o.Operator.Program == nil {
		if err := p.repeat(ctx, &o, s); err != nil {
			return nil, fmt.Errorf("another run: %w", err)
		}
	}
	p.Unknown = slices.Concat(s.unknown, o.Unknown, uncertain(slices.Concat(p.Drift, p.Changes)), p.Unknown, o.open(), o.single(), simulatedOf(p.Changes))
	return p, nil
}

// repeat runs the plan again in other orders, and marks the differences as unknown.
func (p *Plan) repeat(ctx context.Context, o *Options, s *source) error {
	for _, r := range []rush{deletionsFirst, deletionsLast} {
		if len(p.Loops) > 0 {
			return nil
		}
		if o.virtual {
			time.Sleep(73 * time.Second) // times differ
		}
		again, err := runOnce(ctx, o, newOrder(r, o.Rest), s)
		if err != nil {
			return err
		}
		p.merge(again)
	}
	return nil
}

// check checks the options, and sets the defaults.
func (o *Options) check(virtual bool) error {
	switch {
	case o.Moment == nil:
		return errors.New("plan: there is no moment to begin with")
	case o.Operator.Start != nil && o.Operator.Program != nil, o.From.Start != nil && o.From.Program != nil:
		return errors.New("plan: an operator has either Start or Program")
	case o.From.exists() && !o.Operator.exists():
		return errors.New("plan: From needs an Operator that follows it")
	case o.From.exists() && (o.From.Program != nil) != (o.Operator.Program != nil):
		return errors.New("plan: From and Operator must both be programs, or both of this process")
	case !o.Operator.exists() && len(o.Change) == 0:
		return errors.New("plan: there is nothing to plan: neither a change nor an operator")
	case virtual && o.Operator.Program != nil:
		return errors.New("plan: a program does not run in virtual time: use Make")
	}
	rest, limit := 5*time.Second, 2*time.Minute
	if virtual {
		rest, limit = 2*time.Minute, time.Hour
	}
	if o.Rest == 0 {
		o.Rest = rest
	}
	if o.Limit == 0 {
		o.Limit = limit
	}
	if o.Rest < 0 || o.Limit < o.Rest {
		return fmt.Errorf("plan: the limit %v must not be shorter than the rest %v", o.Limit, o.Rest)
	}
	o.virtual = virtual
	return nil
}

// runOnce carries out a run, ends it, and returns its plan.
func runOnce(ctx context.Context, o *Options, order *order, s *source) (*Plan, error) {
	w, err := newWorld(ctx, o, order, s)
	if err != nil {
		return nil, fmt.Errorf("forking the cluster: %w", err)
	}
	err = w.run(ctx)
	if stopErr := w.stop(); err == nil && stopErr != nil {
		err = fmt.Errorf("stopping: %w", stopErr)
	}
	if err != nil {
		return nil, err
	}
	p, err := w.plan()
	if err != nil {
		return nil, err
	}
	p.Source = s.describe()
	return p, nil
}

// plan returns the plan of a run. Its gaps are the calls that were refused.
func (w *world) plan() (*Plan, error) {
	r, err := w.report()
	if err != nil {
		return nil, err
	}
	p := &Plan{Steps: w.steps, Changes: r.changes(acting, ""), Drift: r.changes(preparing, w.operatorUser()), Refused: r.refused(), Loops: r.loops()}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range slices.Sorted(maps.Keys(w.external)) {
		p.Unknown = append(p.Unknown, Unknown{call, "it was refused: external systems are shut off"})
	}
	return p, nil
}

// open returns a gap if an operator could call external systems.
func (o *Options) open() []Unknown {
	for _, shut := range []func() error{o.From.Shut, o.Operator.Shut} {
		if shut == nil || o.AllowNet {
			continue
		}
		if err := shut(); err != nil {
			return []Unknown{{"external systems", "they could not be shut off, and the operator may have called them: " + err.Error()}}
		}
	}
	return nil
}

// single returns a gap if the plan has one run only.
func (o *Options) single() []Unknown {
	switch {
	case o.Operator.Program != nil:
		return []Unknown{{"the order of events", "a program has one run only, and another order of the writes may lead to other changes"}}
	case o.Once:
		return []Unknown{{"the order of events", "the plan has one run only, and another order of the writes may lead to other changes"}}
	}
	return nil
}

// describe returns the description of the cluster.
func (s *source) describe() string {
	if s.Header.Server == "" {
		return ""
	}
	return fmt.Sprintf("%s, Kubernetes %s", s.Header.Server, s.Header.Version)
}

// operatorUser returns the user that the operator is.
func (w *world) operatorUser() string {
	for _, o := range []Operator{w.From, w.Operator} {
		if o.exists() && o.User.Name != "" {
			return o.User.Name
		}
	}
	return operatorName
}

// simulatedOf returns what a plan does not know of changed objects, since nothing is behind them.
func simulatedOf(changes []Change) (unknown []Unknown) {
	kinds := map[string]bool{}
	for _, c := range changes {
		if c.Action != Delete {
			kinds[c.Kind] = true
		}
	}
	if kinds["Pod"] {
		unknown = append(unknown, Unknown{"pods", "no container runs: they become ready, and end, as a simulation lets them"})
	}
	for _, name := range slices.Sorted(maps.Keys(NotRunning)) {
		for _, kind := range concerned[name] {
			if kinds[kind] && NotRunning[name] != "" {
				unknown = append(unknown, Unknown{name, "it does not run: " + NotRunning[name]})
				break
			}
		}
	}
	return unknown
}

// concerned has the kinds that controllers would act on that do not run.
var concerned = map[string][]string{
	"cronjob-controller":                             {"CronJob"},
	"ttl-after-finished-controller":                  {"Job"},
	"horizontal-pod-autoscaler-controller":           {"HorizontalPodAutoscaler"},
	"service-lb-controller":                          {"Service"},
	"certificatesigningrequest-approving-controller": {"CertificateSigningRequest"},
	"certificatesigningrequest-signing-controller":   {"CertificateSigningRequest"},
}
