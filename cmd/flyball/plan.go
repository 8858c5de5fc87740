package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"flyball.dev/cmd/flyball/internal/apply"
	"flyball.dev/cmd/flyball/internal/dev"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/scenario"
	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
	"flyball.dev/plan"
	"flyball.dev/record"
)

// planFlags are the flags of flyball plan.
type planFlags struct {
	cluster              clusterFlags
	recording, at        string
	files, deletes       []string
	force                bool
	user                 string
	groups               []string
	project, main        string
	from, to             string
	account              string
	inPod, allowNet, all bool
	rest, timeout        time.Duration
	without              []string
	operatorLog, output  string
}

// planCommand returns the command "flyball plan".
func planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [-f FILE] [flags] -- COMMAND [ARGUMENTS]",
		Short: "Show what an operator would do to a cluster, without touching it",
		Long: `Show what an operator would do to a cluster, without touching it.

The command reads the cluster of the kubeconfig, only with get, list and watch, or a recording of
flyball record. It forks the state into a control plane in this process, with the definitions,
roles, webhooks and policies, starts the operator there, unmodified, makes the change, and waits
until nothing changes any more. It prints which objects would be created, changed and deleted, in
order, with who would write them and why.

-f applies manifests, and --delete deletes the objects of manifests, as kubectl does. Without
them, the plan has what the start of the operator does. --from and --to name two versions of the
operator: the plan has what the new one does after the old one. Without any operator, it has what
the controllers of Kubernetes do.

--project builds the operator of a project, and installs the definitions and roles in its manifests
before the operator starts, with the rights of its service account. The arguments are the
operator's then. Nothing is generated, and nothing is written to the project.

The operator is any program. Its arguments are templates of Go: {{.Kubeconfig}} is the path of the
kubeconfig of the fork, {{.Namespace}} the namespace of the service account. KUBECONFIG has the path
too. With --in-pod it has the environment and the files of a pod instead; see flyball run.

External systems are shut off, unless --allow-net: the operator has a network of its own, which
only leads to the fork, where the kernel permits that. What the plan could not know is listed.

The exit code is 0 if nothing would change, 2 if something would, or if the plan never comes to
rest, and 1 after an error.`,
		Example: `  flyball plan -f order.yaml -- ./bin/manager --kubeconfig {{.Kubeconfig}}
  flyball plan --project . -f order.yaml
  flyball plan --delete order.yaml --service-account shop-system/controller-manager --in-pod -- ./bin/manager
  flyball plan --from './old --kubeconfig {{.Kubeconfig}}' --to './new --kubeconfig {{.Kubeconfig}}'
  flyball plan --recording incident.recording --at 14:03:07 -f fix.yaml -o markdown -- ./bin/manager`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.run(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), args)
			if err != nil {
				return err
			}
			if err := f.print(cmd.OutOrStdout(), p); err != nil {
				return err
			}
			if p.Different() {
				return exitCode(2)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	f.cluster.add(cmd)
	flags.StringVarP(&f.cluster.namespace, "namespace", "n", "", "the namespace of objects without one (default the one of the context)")
	flags.StringVar(&f.recording, "recording", "", "a recording to read instead of a cluster")
	flags.StringVar(&f.at, "at", "end", "the moment of the recording, as flyball replay takes it")
	flags.StringSliceVarP(&f.files, "filename", "f", nil, "files and directories with objects to apply, or - for standard input")
	flags.StringSliceVar(&f.deletes, "delete", nil, "files and directories with objects to delete, after the others are applied")
	flags.BoolVar(&f.force, "force-conflicts", false, "take fields from other field managers")
	flags.StringVar(&f.user, "as", "", "the user who makes the change (default one with all rights)")
	flags.StringSliceVar(&f.groups, "as-group", nil, "the groups of that user")
	flags.StringVar(&f.project, "project", "", "the folder of a project, such as this one (.): build and run its operator")
	flags.StringVar(&f.main, "main", "", "the main package of the project; by default it is looked for")
	flags.StringVar(&f.from, "from", "", "the command, for sh, of the old version of the operator")
	flags.StringVar(&f.to, "to", "", "the command, for sh, of the new version of the operator")
	flags.StringVar(&f.account, "service-account", "", "the service account of the operator, as NAMESPACE/NAME (default all rights)")
	flags.BoolVar(&f.inPod, "in-pod", false, "give the operator the environment and the files of a pod")
	flags.BoolVar(&f.allowNet, "allow-net", false, "do not shut off external systems")
	flags.DurationVar(&f.rest, "rest", 5*time.Second, "how long nothing must change until the plan is complete")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait for that")
	flags.StringSliceVar(&f.without, "without", nil, "controllers of Kubernetes that do not run, such as deployment-controller")
	flags.BoolVar(&f.all, "all", false, "print the content of new objects of the controllers of Kubernetes, too")
	flags.StringVar(&f.operatorLog, "operator-log", "", "the file for the output of the operator (default none)")
	flags.StringVarP(&f.output, "output", "o", "", "json, yaml, markdown or html; by default text")
	cmd.MarkFlagsRequiredTogether("from", "to")
	cmd.MarkFlagsMutuallyExclusive("from", "project")
	cmd.MarkFlagsMutuallyExclusive("recording", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("recording", "context")
	refuseEmpty(flags, "recording", "at", "filename", "delete", "as", "project", "main", "from", "to", "service-account", "operator-log", "namespace")
	completeValues(cmd, "output", planFormats...)
	return cmd
}

// planFormats are the values of --output.
var planFormats = []string{"json", "yaml", "markdown", "html"}

// run makes the plan.
func (f *planFlags) run(ctx context.Context, stdin io.Reader, errs io.Writer, args []string) (*plan.Plan, error) {
	setUpLogging(0)
	switch {
	case f.output != "" && !slices.Contains(planFormats, f.output):
		return nil, fmt.Errorf("unknown output format %q: there are %s", f.output, strings.Join(planFormats, ", "))
	case f.from != "" && len(args) > 0:
		return nil, errors.New("with --from and --to, there must be no other command")
	case f.rest <= 0 || f.timeout < f.rest:
		return nil, errors.New("--rest must be greater than zero, and --timeout not shorter")
	case f.user == "" && len(f.groups) > 0:
		return nil, errors.New("--as-group needs --as")
	case f.main != "" && f.project == "":
		return nil, errors.New("--main needs --project")
	case f.from == "" && f.project == "" && len(args) == 0 && len(f.files) == 0 && len(f.deletes) == 0:
		return nil, errors.New("there is nothing to plan: name a change with -f or --delete, or an operator after --")
	}
	o := plan.Options{AllowNet: f.allowNet, Rest: f.rest, Limit: f.timeout, Without: f.without, User: plan.User{Name: f.user, Groups: f.groups}}
	dir, remove, err := inpod.NewDirectory("flyball-plan-")
	if err != nil {
		return nil, err
	}
	defer remove()
	if f.project != "" {
		if args, err = f.build(ctx, &o, dir, errs, args); err != nil {
			return nil, err
		}
	}
	closeLog, err := f.operators(&o, dir, errs, args)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	namespace := metav1.NamespaceDefault
	if f.recording == "" {
		namespace, err = f.readCluster(ctx, &o, errs)
	} else {
		err = f.readRecording(&o, errs)
	}
	if err != nil {
		return nil, err
	}
	if f.cluster.namespace != "" {
		namespace = f.cluster.namespace
	}
	if o.Change, err = f.change(ctx, stdin, namespace); err != nil {
		return nil, err
	}
	defer progress.Start(errs, progress.Doing(fmt.Sprintf("forked %d objects; waiting until nothing changes", len(o.Moment.Objects))))()
	return plan.Make(ctx, o)
}

// build builds the operator of the project, and returns its command. The account is the one of the project's manifests, unless a flag
// names another.
func (f *planFlags) build(ctx context.Context, o *plan.Options, dir string, errs io.Writer, args []string) (command []string, err error) {
	p, err := dev.Build(ctx, f.project, f.main, dir, errs)
	if err != nil {
		return nil, err
	}
	for _, note := range p.Notes {
		fmt.Fprintln(errs, "flyball:", note)
	}
	f.account = cmp.Or(f.account, p.Account)
	m := scenario.Manifest{Namespace: metav1.NamespaceDefault, Force: true}
	for _, name := range namespacesOf(p.Objects) {
		o.Install = append(o.Install, lab.Step{Name: "create Namespace " + name, Do: func(ctx context.Context, c client.Client) error {
			return client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}})
	}
	for _, object := range p.Objects {
		o.Install = append(o.Install, m.Apply(object))
	}
	return append([]string{"env", "TMPDIR=" + p.TempDir, p.Program}, args...), nil
}

// namespacesOf returns the namespaces of objects.
func namespacesOf(objects []*unstructured.Unstructured) []string {
	names := map[string]bool{}
	for _, o := range objects {
		if o.GetNamespace() != "" {
			names[o.GetNamespace()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// readCluster reads the cluster of the flags, and returns the namespace of objects without one.
func (f *planFlags) readCluster(ctx context.Context, o *plan.Options, errs io.Writer) (namespace string, err error) {
	loaded, config, err := f.cluster.load(errs)
	if err != nil {
		return "", err
	}
	if namespace, _, err = loaded.Namespace(); err != nil {
		return "", fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	defer progress.Start(errs, progress.Doing("reading "+config.Host))()
	o.Moment, err = record.ReadCluster(ctx, config, record.Options{Notice: func(text string) {
		o.Unknown = append(o.Unknown, plan.Unknown{What: "API", Why: text})
	}})
	if err != nil && ctx.Err() == nil {
		err = f.cluster.explain(loaded, config, err)
	}
	return namespace, err
}

// readRecording reads the recording of the flags.
func (f *planFlags) readRecording(o *plan.Options, errs io.Writer) error {
	defer progress.Start(errs, progress.Doing("reading "+f.recording))()
	m, file, err := record.ReadMoment(f.recording, f.at)
	if err != nil {
		return err
	}
	o.Moment = m
	return file.Close()
}

// change returns the steps of the flags.
func (f *planFlags) change(ctx context.Context, stdin io.Reader, namespace string) (steps []lab.Step, err error) {
	m := scenario.Manifest{Namespace: namespace, Force: f.force}
	for _, files := range []struct {
		names []string
		step  func(*apply.Document) lab.Step
	}{
		{f.files, func(d *apply.Document) lab.Step { return m.Apply(d.Object) }},
		{f.deletes, func(d *apply.Document) lab.Step { return m.Delete(d.Object) }},
	} {
		if len(files.names) == 0 {
			continue
		}
		documents, err := apply.Read(ctx, stdin, false, files.names...)
		if err != nil {
			return nil, err
		}
		for _, d := range documents {
			steps = append(steps, files.step(d))
		}
	}
	return steps, nil
}

// operators sets the operators of a plan.
func (f *planFlags) operators(o *plan.Options, dir string, errs io.Writer, args []string) (closeLog func(), err error) {
	var log io.Writer = io.Discard
	closeLog = func() {}
	if f.operatorLog != "" {
		file, err := os.Create(f.operatorLog)
		if err != nil {
			return nil, err
		}
		log, closeLog = file, func() { file.Close() }
	}
	var account inpod.Account
	var user plan.User
	if f.account != "" {
		if account, err = inpod.ParseAccount(f.account); err != nil {
			return nil, errors.Join(err, closed(closeLog))
		}
		user.Name, user.Groups = identityOf(account)
	}
	make := func(name, command string) (plan.Operator, error) {
		s := &operatorStarter{dir: dir, inPod: f.inPod, stderr: errs, log: log, account: account, shut: !f.allowNet}
		s.command, err = template.New(name).Option("missingkey=error").Parse(command)
		return plan.Operator{User: user, Program: s.start, Shut: s.isShut}, err
	}
	switch {
	case f.from != "":
		if o.From, err = make("--from", f.from); err == nil {
			o.Operator, err = make("--to", f.to)
		}
	case len(args) > 0:
		o.Operator, err = make("the command", shellCommand(args))
	}
	if err != nil {
		return nil, errors.Join(err, closed(closeLog))
	}
	return closeLog, nil
}

func closed(close func()) error { close(); return nil }

// shellCommand returns a command for sh that runs a program with arguments. exec makes the program the process that gets the signals.
func shellCommand(args []string) string {
	command := "exec"
	for _, arg := range args {
		command += " '" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return command
}

// print prints a plan.
func (f *planFlags) print(out io.Writer, p *plan.Plan) error {
	switch f.output {
	case "json":
		return printJSON(out, p)
	case "yaml":
		content, err := yaml.Marshal(p)
		if err == nil {
			_, err = out.Write(content)
		}
		return err
	case "markdown":
		return p.WriteMarkdown(out)
	case "html":
		return p.WriteHTML(out)
	}
	return p.WriteText(out, f.all)
}
