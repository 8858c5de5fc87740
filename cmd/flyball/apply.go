package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/cmd/flyball/internal/apply"
	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/internal/kubeconfig"
)

// clusterFlags are the flags that select a cluster.
type clusterFlags struct{ kubeconfig, context, namespace string }

func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "",
		"the kubeconfig (default $KUBECONFIG, "+kubeconfig.DefaultPath+" if it exists, or ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "the context in the kubeconfig (default the current one)")
}

// load returns the kubeconfig that the flags select, and the configuration of a client that prints warnings to errs.
func (f *clusterFlags) load(errs io.Writer) (clientcmd.ClientConfig, *restclient.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	files := rules.GetLoadingPrecedence()
	if f.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		files = append(files, kubeconfig.DefaultPath)
		if _, err := os.Stat(kubeconfig.DefaultPath); err == nil {
			rules.ExplicitPath = kubeconfig.DefaultPath
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, fmt.Errorf("there is no kubeconfig in %s: start a control plane with flyball up, "+
			"or name a kubeconfig with --kubeconfig",
			strings.Join(files, " or "))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	config.QPS = -1 // servers have priority and fairness
	config.WarningHandler = newWarnings(errs)
	return loaded, config, nil
}

// newWarnings returns a handler that prints the warnings of an API server as kubectl does, each once.
func newWarnings(errs io.Writer) restclient.WarningHandler {
	return restclient.NewWarningWriter(errs, restclient.WarningWriterOptions{Deduplicate: true, Color: terminal.Colours(errs)})
}

// explain explains the error of a request to the cluster.
func (f *clusterFlags) explain(loaded clientcmd.ClientConfig, config *restclient.Config, err error) error {
	content, loadErr := loaded.RawConfig()
	if loadErr != nil {
		return loadErr
	}
	return kubeconfig.Unreachable(content, f.context, config, err)
}

// connect connects to the cluster that the flags select, and prints its name and its warnings to errs.
func (f *clusterFlags) connect(ctx context.Context, errs io.Writer) (*apply.Cluster, error) {
	loaded, config, err := f.load(errs)
	if err != nil {
		return nil, err
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	fmt.Fprintf(errs, "cluster: %s\n", config.Host)
	c, err := apply.NewCluster(ctx, config, namespace, f.namespace != "")
	if err != nil && ctx.Err() == nil {
		return nil, f.explain(loaded, config, err)
	}
	return c, err
}

// applyFiles returns the command "flyball apply".
func applyFiles() *cobra.Command {
	var cluster clusterFlags
	var o apply.Options
	var files []string
	var recursive bool
	dryRun := "none"
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Apply manifests to a cluster",
		Long: `Apply the objects in manifests to a cluster, by server-side apply.

A file may have several documents. In a folder, the command reads the files *.yaml, *.yml
and *.json, except kustomizations. It reads all files before it applies the first object,
and applies objects in their order. If the cluster refuses one, the command applies the
others and fails. It waits until a definition is served before it applies the next object.`,
		Example: `  flyball apply -f config/samples
  flyball apply -f https://example.com/install.yaml
  kubectl kustomize config/default | flyball apply -f -`,
		Args: noArgs("name files and folders with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun != "none" && dryRun != "server" {
				return fmt.Errorf("--dry-run %q is invalid: it must be none or server", dryRun)
			}
			o.DryRun = dryRun == "server"
			if len(files) == 0 {
				return errors.New("nothing to apply: name files and folders with -f")
			}
			documents, err := apply.Read(cmd.Context(), cmd.InOrStdin(), recursive, files...)
			if err != nil {
				return err
			}
			c, err := cluster.connect(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			suffix := ""
			if o.DryRun {
				suffix = " (server dry run)"
			}
			var errs []error
			for _, d := range documents {
				if cmd.Context().Err() != nil {
					break
				}
				outcome, err := c.Apply(cmd.Context(), d, o)
				if outcome != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s%s\n", outcome.Name, outcome.What, suffix)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cluster.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&cluster.namespace, "namespace", "n", "", "the namespace of objects that name none (default that of the context)")
	flags.StringArrayVarP(&files, "filename", "f", nil, "a file, a folder, a URL, or - for standard input; may be repeated")
	flags.BoolVarP(&recursive, "recursive", "R", false, "read the folders in a folder, too")
	flags.StringVar(&o.FieldManager, "field-manager", apply.FieldManager, "the name under which the fields are owned")
	flags.BoolVar(&o.Force, "force-conflicts", false, "take fields over that others own")
	flags.StringVar(&dryRun, "dry-run", "none", "none, or server, which checks everything and changes nothing")
	completeValues(cmd, "dry-run", "none", "server")
	return cmd
}

// definitions is the folder of a project's CustomResourceDefinitions.
const definitions = "config/crd/bases"

// definitionFlags are the flags of a command for definitions.
type definitionFlags struct {
	cluster clusterFlags
	files   []string
	timeout time.Duration
}

func (f *definitionFlags) add(cmd *cobra.Command) {
	f.cluster.add(cmd)
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", []string{definitions},
		"a file, a folder, a URL, or - for standard input; may be repeated")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait")
}

// forEach reads the definitions, connects to the cluster, and calls a function for each definition, until the timeout.
// It continues after errors.
func (f *definitionFlags) forEach(cmd *cobra.Command, do func(context.Context, *apply.Cluster, *apply.Document) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	documents, err := readDefinitions(ctx, cmd.InOrStdin(), f.files)
	if err != nil {
		return err
	}
	cluster, err := f.cluster.connect(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range documents {
		errs = append(errs, do(ctx, cluster, d))
	}
	return errors.Join(errs...)
}

// readDefinitions reads CustomResourceDefinitions. The error for a missing folder says how to generate it.
func readDefinitions(ctx context.Context, stdin io.Reader, files []string) ([]*apply.Document, error) {
	documents, err := apply.Read(ctx, stdin, false, files...)
	if errors.Is(err, os.ErrNotExist) && slices.Contains(files, definitions) {
		return nil, fmt.Errorf("there is no folder %s: change to the folder of the project, generate the definitions "+
			"with flyball generate, or name them with --filename", definitions)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		if d.Object.GetKind() != "CustomResourceDefinition" {
			return nil, fmt.Errorf("%s: document %d: it is a %s, not a CustomResourceDefinition: use flyball apply",
				d.Source, d.Number, d.Object.GetKind())
		}
	}
	return documents, nil
}

// maxDifferences is the maximum number of printed differences of a definition.
const maxDifferences = 20

// install returns the command "flyball install".
func install() *cobra.Command {
	var f definitionFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the CustomResourceDefinitions of a project into a cluster",
		Long: `Install the CustomResourceDefinitions of a project into a cluster, by server-side apply, wait
until they are established, and say what has changed.`,
		Example: `  flyball install
  flyball install --kubeconfig ~/.kube/config --context staging`,
		Args: noArgs("name files and folders with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.forEach(cmd, func(ctx context.Context, c *apply.Cluster, d *apply.Document) error {
				outcome, err := c.Apply(ctx, d, apply.Options{Force: true})
				if outcome != nil {
					printOutcome(cmd.OutOrStdout(), outcome)
				}
				return err
			})
		},
	}
	f.add(cmd)
	return cmd
}

// printOutcome prints the outcome for a definition, with the changed fields.
func printOutcome(out io.Writer, o *apply.Outcome) {
	fmt.Fprintf(out, "%s %s\n", o.Name, o.What)
	if o.What != apply.Configured {
		return
	}
	all := apply.Differences(o.Before, o.After)
	for _, d := range all[:min(len(all), maxDifferences)] {
		fmt.Fprintf(out, "  %s\n", d)
	}
	if more := len(all) - maxDifferences; more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// uninstall returns the command "flyball uninstall".
func uninstall() *cobra.Command {
	var f definitionFlags
	var ignoreNotFound bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the CustomResourceDefinitions of a project from a cluster",
		Long: `Remove the CustomResourceDefinitions of a project from a cluster, and with them all objects
of these kinds, and wait until they are gone.`,
		Example: `  flyball uninstall
  flyball uninstall --kubeconfig ~/.kube/config --context staging --ignore-not-found`,
		Args: noArgs("name files and folders with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.forEach(cmd, func(ctx context.Context, c *apply.Cluster, d *apply.Document) error {
				name, found, err := c.Delete(ctx, d)
				switch {
				case err != nil:
					return err
				case found:
					fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", name)
				case !ignoreNotFound:
					return fmt.Errorf("%s: document %d: %s is not installed", d.Source, d.Number, name)
				}
				return nil
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&ignoreNotFound, "ignore-not-found", false, "do not fail if a definition is not there")
	return cmd
}
