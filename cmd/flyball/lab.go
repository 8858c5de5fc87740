package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/cmd/flyball/internal/scenario"
	"flyball.dev/ctrl/client"
	"flyball.dev/lab"
)

// labFlags are the flags of flyball lab.
type labFlags struct {
	operator, account     string
	inPod                 bool
	crds, objects         []string
	sample, steps, script string
	replay, save, output  string
	html                  string
	time, rest, view      time.Duration
	runs                  int
	faults, without       []string
	operatorLog           string

	removedVersions bool
}

// labCommand returns the command "flyball lab".
func labCommand() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab --operator COMMAND --sample FILE",
		Short: "Find out whether an operator is right, when it crashes, sees old data, or gets errors",
		Long: `Find out whether an operator is right, when it crashes, sees old data, or gets errors.

The operator is any program that nobody has changed. Each run starts it on a new control plane in
this process, and carries out the steps of a scenario. The first runs are without faults, and show
what the operator should reach. In each further run something goes wrong: the operator is killed
at a write, its view stands still for a while, it starts again on a view of the past, an event is
hidden from it, a request fails, somebody deletes one of its objects. Then the run must end in the
same state, at rest.

Runs are in real time. The same faults need not lead to the same run; a finding may need several
replays. Operators on flyball.dev/ctrl are explored faster, and replayed exactly, by the Go package
flyball.dev/lab.

The operator speaks HTTPS with a server of the lab. The command is for sh, and a template of Go:
{{.Kubeconfig}} is the path of its kubeconfig, {{.Namespace}} the namespace of its service
account. KUBECONFIG has the path too. With --in-pod, the operator has the environment and the files
of a pod instead; see flyball run.

Except with --replay, a second run of the same faults confirms each finding, or the finding says that
it does not. Each finding is printed as a story, and saved in a file, which --replay runs again. The
exit code is 1 if there is a finding.`,
		Example: `  flyball lab --operator './bin/manager --kubeconfig {{.Kubeconfig}}' --crds config/crd/bases --sample config/samples/order.yaml
  flyball lab --operator ./bin/manager --in-pod --crds config/crd/bases --steps scenario.yaml --time 1h
  flyball lab --operator ./bin/manager --crds config/crd/bases --steps scenario.yaml --replay .flyball/lab/convergence-1b2c3d4e.json`,
		Args: noArgs("see flyball lab --help"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.operator, "operator", "", "the command that runs the operator")
	flags.StringSliceVar(&f.crds, "crds", nil, "files and directories with the definitions of its custom resources")
	flags.StringSliceVar(&f.objects, "objects", nil, "files and directories with what exists before the operator starts, such as its roles")
	flags.StringVar(&f.sample, "sample", "", "a file with custom resources: without --steps, the scenario is to create and to delete them")
	flags.StringVar(&f.steps, "steps", "", "a file with a scenario; see docs/lab.md")
	flags.StringVar(&f.script, "script", "", "FILE: what containers do, as of flyball up")
	flags.StringVar(&f.account, "service-account", "", "the service account of the operator, as NAMESPACE/NAME (default the administrator)")
	flags.BoolVar(&f.inPod, "in-pod", false, "give the operator the environment and the files of a pod")
	flags.BoolVar(&f.removedVersions, "removed-versions", false, removedVersions)
	flags.DurationVar(&f.time, "time", 10*time.Minute, "the length of the exploration")
	flags.IntVar(&f.runs, "runs", 0, "the largest number of runs with faults; 0 means no limit")
	flags.DurationVar(&f.rest, "rest", 0, "how long nothing must change until the next step begins (default the one of the scenario, or 5s)")
	flags.DurationVar(&f.view, "view", 20*time.Second, "how long a stale view stands still after the last change")
	flags.StringSliceVar(&f.faults, "faults", nil, "the only faults to try, such as 'crash after,time travel' (default all)")
	flags.StringSliceVar(&f.without, "without", nil, "checks to leave out, such as 'second pass'")
	flags.StringVar(&f.replay, "replay", "", "a file with the schedule to run, instead of an exploration")
	flags.StringVar(&f.save, "save", filepath.Join(".flyball", "lab"), "the directory for findings")
	flags.StringVar(&f.html, "html", "", "a directory for each finding as a page of HTML (default none)")
	flags.StringVar(&f.operatorLog, "operator-log", "", "the file for the output of the operator (default none)")
	flags.StringVarP(&f.output, "output", "o", "", "json prints the report as JSON")
	_ = cmd.MarkFlagRequired("operator") // the flag exists
	cmd.MarkFlagsMutuallyExclusive("replay", "runs")
	refuseEmpty(flags, "operator", "sample", "steps", "script", "service-account", "replay", "save", "html", "operator-log")
	completeValues(cmd, "output", "json")
	return cmd
}

// run explores.
func (f *labFlags) run(ctx context.Context, out, progress io.Writer) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.time <= 0 || f.view <= 0 || f.rest < 0 || f.runs < 0 {
		return errors.New("--time and --view must be greater than zero, and --rest and --runs must not be negative")
	}
	if f.rest > 0 && f.rest < time.Second {
		return fmt.Errorf("--rest %v is too short: the world must be at rest for at least 1s", f.rest)
	}
	s, err := f.scenario(ctx)
	if err != nil {
		return err
	}
	options := lab.LiveOptions{Time: f.time, Runs: f.runs, View: f.view, Progress: progress}
	if f.replay != "" {
		if options.Replay, err = lab.ReadSchedule(f.replay); err != nil {
			return err
		}
	}
	dir, remove, err := inpod.NewDirectory("flyball-lab-")
	if err != nil {
		return err
	}
	defer remove()
	starter := &operatorStarter{dir: dir, inPod: f.inPod, stderr: progress, log: io.Discard}
	if f.operatorLog != "" {
		file, err := os.Create(f.operatorLog)
		if err != nil {
			return err
		}
		defer file.Close()
		starter.log = file
	}
	if starter.command, err = template.New("operator").Option("missingkey=error").Parse(f.operator); err != nil {
		return fmt.Errorf("--operator: %w", err)
	}
	program := lab.Program{CRDPaths: f.crds, RemovedVersions: f.removedVersions, Start: starter.start}
	if err := f.identity(&program, starter); err != nil {
		return err
	}
	if program.Objects, err = f.readObjects(ctx); err != nil {
		return err
	}
	report, err := lab.ExploreProgram(ctx, program, s, options)
	if err != nil {
		return err
	}
	return f.print(out, report)
}

// scenario returns the scenario of --steps or --sample.
func (f *labFlags) scenario(ctx context.Context) (s lab.Scenario, err error) {
	if f.steps == "" && f.sample == "" {
		return s, errors.New("there is nothing to do for the operator: name a file with --sample or --steps")
	}
	if f.steps != "" {
		if s, err = scenario.Read(ctx, f.steps); err != nil {
			return s, err
		}
	}
	if f.sample != "" {
		objects, err := scenario.Objects(ctx, f.sample)
		if err != nil {
			return s, err
		}
		var create, remove []lab.Step
		for _, o := range objects {
			create = append(create, scenario.Apply(o))
			remove = append(remove, scenario.Delete(o))
		}
		if f.steps != "" {
			remove = nil
		}
		s.Steps = append(append(create, s.Steps...), remove...)
	}
	if f.rest > 0 {
		s.Rest = f.rest
	}
	s.Without = f.without
	if s.Script, err = loadScript(f.script); err != nil {
		return s, err
	}
	for _, fault := range f.faults {
		s.Only = append(s.Only, lab.Fault(fault))
	}
	return s, nil
}

// identity sets the user of the operator.
func (f *labFlags) identity(program *lab.Program, starter *operatorStarter) error {
	if f.account == "" {
		return nil
	}
	var err error
	if starter.account, err = inpod.ParseAccount(f.account); err != nil {
		return err
	}
	program.User, program.Groups = identityOf(starter.account)
	return nil
}

// identityOf returns the user that a service account is, and its groups.
func identityOf(account inpod.Account) (user string, groups []string) {
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace}
}

// readObjects returns the objects that exist before the operator, namespaces first.
func (f *labFlags) readObjects(ctx context.Context) (objects []client.Object, err error) {
	if len(f.objects) == 0 {
		return nil, nil
	}
	all, err := scenario.Objects(ctx, f.objects...)
	if err != nil {
		return nil, err
	}
	for _, namespaces := range []bool{true, false} {
		for _, o := range all {
			// Definitions are from --crds, which does not read a removed version.
			isDefinition := o.GetKind() == "CustomResourceDefinition" && o.GetAPIVersion() == apiextensionsv1.SchemeGroupVersion.String()
			if (o.GetKind() == "Namespace") == namespaces && !isDefinition {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

// print prints the report and saves the findings. It returns an error if there are any.
func (f *labFlags) print(out io.Writer, report *lab.Report) error {
	type finding struct {
		Check      string       `json:"check"`
		Message    string       `json:"message"`
		Schedule   lab.Schedule `json:"schedule"`
		Story      string       `json:"story"`
		Divergence string       `json:"divergence,omitempty"`
		File       string       `json:"file,omitempty"`
		Page       string       `json:"page,omitempty"`
	}
	findings := []finding{}
	for _, found := range report.Findings {
		one := finding{Check: found.Check, Message: found.Message, Schedule: found.Schedule, Story: found.Story, Divergence: found.Divergence}
		if len(found.Schedule) > 0 && f.replay == "" {
			var err error
			if one.File, err = found.Save(f.save); err != nil {
				return err
			}
		}
		if f.html != "" {
			var err error
			if one.Page, err = found.SaveHTML(f.html); err != nil {
				return err
			}
		}
		findings = append(findings, one)
	}
	if f.output == "json" {
		if err := printJSON(out, map[string]any{"findings": findings, "runs": report.Schedules, "different": report.Runs, "unreached": report.Unreached, "coverage": report.Coverage}); err != nil {
			return err
		}
	} else {
		for _, one := range findings {
			fmt.Fprintf(out, "\n%s: %s\n\n%s", one.Check, one.Message, one.Story)
			if one.File != "" {
				fmt.Fprintf(out, "saved in %s: --replay runs it again\n", one.File)
			}
			if one.Page != "" {
				fmt.Fprintf(out, "see %s\n", one.Page)
			}
		}
		if len(report.Coverage.Faults) > 0 {
			fmt.Fprintf(out, "\n%s\n", report.Coverage)
		}
		fmt.Fprintf(out, "%d runs with faults, %d different; %d schedules did not come to the point of a fault; findings: %d\n",
			report.Schedules, report.Runs, report.Unreached, len(findings))
	}
	if len(findings) > 0 {
		return exitCode(1)
	}
	if f.replay != "" && report.Schedules == 0 {
		return errors.New("the run did not come to the point of a fault, so it proves nothing: try again, or explore")
	}
	return nil
}

// operatorStarter starts the program of --operator.
type operatorStarter struct {
	command *template.Template
	account inpod.Account
	inPod   bool
	dir     string // for the files of the operator
	stderr  io.Writer
	log     io.Writer // receives the output of the operator
	shut    bool      // the operator reaches the API server alone, if this system can do that

	mu      sync.Mutex
	started int
	open    error // why the operator reaches more
}

// start implements lab.Program.Start.
func (s *operatorStarter) start(access lab.Access) (lab.Running, error) {
	s.mu.Lock()
	s.started++
	dir := filepath.Join(s.dir, fmt.Sprint(s.started))
	s.mu.Unlock()
	p := &pod{account: s.account, files: filepath.Join(dir, "serviceaccount"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if p.account.Namespace == "" {
		p.account = inpod.Account{Namespace: access.Namespace, Name: "default"}
	}
	if err := writeAccess(p, access); err != nil {
		return nil, err
	}
	var command strings.Builder
	err := s.command.Execute(&command, map[string]string{"Kubeconfig": p.kubeconfig, "Namespace": access.Namespace})
	if err != nil {
		return nil, fmt.Errorf("the command of the operator: %w", err)
	}
	output := &tail{to: s.log}
	program := &hostprocess.Program{Path: "/bin/sh", Args: []string{"sh", "-c", command.String()}, Group: true, Stdout: output, Stderr: output}
	mounts := mountsNever
	if s.inPod {
		mounts = mountsAlways
	}
	if s.shut {
		program.Reach = net.JoinHostPort(p.server.Host, p.server.Port)
	}
	env := program.Env
	running, err := p.start(program, "operator", mounts, s.stderr)
	if denied := new(hostprocess.NamespaceError); s.shut && errors.As(err, &denied) {
		s.mu.Lock()
		s.open = denied
		s.mu.Unlock()
		program.Reach, program.Env = "", env
		running, err = p.start(program, "operator", mounts, s.stderr)
	}
	if err != nil {
		return nil, err
	}
	return &operatorProcess{running, output}, nil
}

// isShut returns the error for which the operator reaches more than the API server, or nil.
func (s *operatorStarter) isShut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// writeAccess writes the files by which a program finds the server of the lab.
func writeAccess(p *pod, access lab.Access) error {
	if err := os.MkdirAll(p.files, 0o700); err != nil {
		return err
	}
	u, err := url.Parse(access.Config.Host)
	if err != nil {
		return err
	}
	p.server = inpod.Server{Host: u.Hostname(), Port: u.Port()}
	for name, content := range map[string][]byte{"token": []byte(access.Config.BearerToken), "ca.crt": access.Config.CAData, "namespace": []byte(access.Namespace)} {
		if err := os.WriteFile(filepath.Join(p.files, name), content, 0o600); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(*kubeconfigOf(access.Config, access.Namespace), p.kubeconfig)
}

// kubeconfigOf returns a kubeconfig with one context.
func kubeconfigOf(config *restclient.Config, namespace string) *clientcmdapi.Config {
	k := clientcmdapi.NewConfig()
	k.Clusters["lab"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	k.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "operator", Namespace: namespace}
	k.CurrentContext = "lab"
	return k
}

// operatorProcess is the running operator.
type operatorProcess struct {
	*hostprocess.Process
	output *tail
}

// Terminate implements lab.Running.
func (p *operatorProcess) Terminate() { p.Signal(os.Interrupt) }

// Err implements lab.Running.
func (p *operatorProcess) Err() error {
	if text := p.output.text(); text != "" {
		return fmt.Errorf("exit code %d; its last output:\n%s", p.ExitCode(), text)
	}
	return fmt.Errorf("exit code %d, without any output", p.ExitCode())
}

// tail passes output on, and keeps the end of it.
type tail struct {
	to io.Writer

	mu  sync.Mutex
	end []byte
}

const tailSize = 2000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if len(t.end) > 2*tailSize {
		t.end = bytes.Clone(t.end[len(t.end)-tailSize:])
	}
	return t.to.Write(p)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end[max(0, len(t.end)-tailSize):]))
}
