package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/ctrl/console"
)

// consoleVariable is the environment variable with the URL of a console.
const consoleVariable = "FLYBALL_CONSOLE"

// consoleFlags say where the console is.
type consoleFlags struct{ url string }

func (f *consoleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "console", "", "the URL of the console, as the operator prints it "+
		"(default $"+consoleVariable+", or else the URL in "+console.DefaultURLFile+")")
	refuseEmpty(cmd.Flags(), "console")
}

// client returns a client of the console.
func (f *consoleFlags) client() (*consoleClient, error) {
	text := f.url
	if text == "" {
		text = os.Getenv(consoleVariable)
	}
	if text == "" {
		content, err := os.ReadFile(console.DefaultURLFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s, so no console runs in this folder: --console takes the URL that the operator prints", console.DefaultURLFile)
		}
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(string(content))
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the URL of the console must be as the operator prints it: http://127.0.0.1:PORT/console/?token=TOKEN")
	}
	token := u.Query().Get("token")
	u.RawQuery, u.Path = "", ""
	return &consoleClient{u, token}, nil
}

// consoleClient is a client of a console.
type consoleClient struct {
	base  *url.URL
	token string
}

// get gets a part of the API.
func (c *consoleClient) get(ctx context.Context, into any, part string, pairs ...string) error {
	u := c.base.JoinPath("console", "api", part)
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the console does not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var status struct{ Message string }
		if json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&status) != nil || status.Message == "" {
			status.Message = response.Status
		}
		return fmt.Errorf("the console: %s", terminal.Quoted(status.Message))
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// topCommand returns the command "flyball top".
func topCommand() *cobra.Command {
	var f consoleFlags
	var output string
	var interval time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the queues and the running reconciles of an operator",
		Long: `Show the controllers of an operator that has a console: their queues, rates, errors and durations, and what
they reconcile now and why.

On a terminal, it is shown again and again until Ctrl-C.`,
		Example: `  flyball top
  flyball top --once -o json
  flyball top --console 'http://127.0.0.1:41879/console/?token=…'`,
		Args: noArgs("see flyball top --help"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if !once && output == "" && interval <= 0 {
				return errors.New("--interval must be greater than zero")
			}
			c, err := f.client()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			repeat := !once && output == "" && terminal.Is(out)
			for {
				var now console.Now
				if err := c.get(cmd.Context(), &now, "now"); err != nil {
					if repeat && cmd.Context().Err() != nil {
						return nil
					}
					return err
				}
				if output == "json" {
					return printJSON(out, now)
				}
				if repeat {
					fmt.Fprint(out, "\x1b[H\x1b[2J")
				}
				printTop(out, now)
				if !repeat {
					return nil
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(interval):
				}
			}
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "the output format: json; by default text")
	cmd.Flags().BoolVar(&once, "once", false, "show it once")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "the time between two views on a terminal")
	completeValues(cmd, "output", "json")
	return cmd
}

// printTop prints the controllers.
func printTop(out io.Writer, now console.Now) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CONTROLLER\tREADY\tWAITING\tBUSY\tPER SECOND\tP50\tP99\tERRORS\tSTATE")
	for _, c := range now.Controllers {
		state := ""
		switch {
		case c.Stopped:
			state = "stopped"
		case c.Paused:
			state = "paused"
		case !c.Started:
			state = "not started"
		case len(c.PausedRequests) > 0:
			state = counted(len(c.PausedRequests)+c.MorePaused, "request") + " paused"
		}
		terminal.Printf(table, "%s\t%d\t%d\t%d/%d\t%.1f\t%s\t%s\t%d\t%s\n", c.Name, c.Ready, c.Waiting, c.Processing, c.Workers,
			c.Rate, c.P50, c.P99, c.Errors, state)
	}
	_ = table.Flush()
	for _, c := range now.Controllers {
		for _, r := range c.Active {
			terminal.Printf(out, "\n%s %s for %s: %s\n", c.Name, r.Request, r.Took, causesText(r.Causes))
		}
	}
	if now.Warnings > 0 {
		terminal.Printf(out, "\n%s: see the console\n", counted(now.Warnings, "warning"))
	}
}

// counted is a number of things, such as 1 retry or 2 retries.
func counted(n int, one string) string {
	stem, isY := strings.CutSuffix(one, "y")
	switch {
	case n == 1:
		return "1 " + one
	case isY:
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func causesText(causes []console.Cause) string {
	var texts []string
	for _, c := range causes {
		text := strings.Join(slices.DeleteFunc([]string{c.Event, c.Kind, c.Object}, func(s string) bool { return s == "" }), " ")
		if c.Version != "" {
			text += " at " + c.Version
		}
		if c.Origin != nil {
			text += fmt.Sprintf(" by %s %s", c.Origin.Controller, c.Origin.Request)
		} else if c.By == "forgotten" {
			text += " (who wrote it is forgotten)"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "no cause is recorded"
	}
	return strings.Join(texts, ", ")
}

// whyCommand returns the command "flyball why".
func whyCommand() *cobra.Command {
	var f consoleFlags
	var output, namespace string
	var limit int
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Show the last reconciles of an object, why they ran, and what they changed",
		Long: `Show the last reconciles of an object by an operator that has a console: their causes, what they wrote and
changed, and their log lines, the newest first. KIND is the kind of a controller, such as AppService or
Deployment.apps; upper and lower case are the same. For another kind, the command shows the writes of the
operator to the object.`,
		Example: `  flyball why appservice/hello
  flyball why deployment/hello -n shop
  flyball why AppService.app.example.com/hello -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				if kind, name, ok := strings.Cut(args[0], "/"); ok && kind != "" && name != "" && !strings.Contains(name, "/") {
					return nil
				}
			}
			return errors.New("want one argument KIND/NAME, and the namespace as -n NAMESPACE: see flyball why --help")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if limit <= 0 {
				return errors.New("--limit must be greater than zero")
			}
			c, err := f.client()
			if err != nil {
				return err
			}
			kind, name, _ := strings.Cut(args[0], "/")
			return why(cmd.Context(), cmd.OutOrStdout(), c, kind, name, namespace, limit, output)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "the output format: json; by default text")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "the namespace; of an object without one, it does not matter")
	refuseEmpty(cmd.Flags(), "namespace")
	cmd.Flags().IntVar(&limit, "limit", 5, "how many reconciles of a controller to show")
	completeValues(cmd, "output", "json")
	return cmd
}

// sameKind reports whether a kind such as AppService.app.example.com has the name that a user gives.
func sameKind(kind, called string) bool {
	short, _, _ := strings.Cut(kind, ".")
	return kind != "" && (strings.EqualFold(kind, called) || strings.EqualFold(short, called) || strings.EqualFold(short+"s", called))
}

// why prints the reconciles of an object by all controllers of its kind.
func why(ctx context.Context, out io.Writer, c *consoleClient, kind, name, namespace string, limit int, output string) error {
	var now console.Now
	if err := c.get(ctx, &now, "now"); err != nil {
		return err
	}
	var keys []console.Key
	for _, controller := range now.Controllers {
		if !sameKind(controller.Kind, kind) {
			continue
		}
		for _, request := range []string{namespace + "/" + name, name} { // it may have no namespace
			var key console.Key
			err := c.get(ctx, &key, "key", "controller", controller.Name, "request", request, "limit", fmt.Sprint(limit))
			if err == nil && (len(key.Reconciles) > 0 || key.Queue != nil) {
				keys = append(keys, key)
				break
			}
		}
	}
	switch {
	case len(keys) == 0:
		return whyWrites(ctx, out, c, kind, namespace+"/"+name, output)
	case output == "json":
		return printJSON(out, keys)
	}
	for _, key := range keys {
		printKey(out, key)
	}
	return nil
}

// whyWrites prints the writes of an object that no controller is for.
func whyWrites(ctx context.Context, out io.Writer, c *consoleClient, kind, name, output string) error {
	var caches console.Caches
	if err := c.get(ctx, &caches, "caches"); err != nil {
		return err
	}
	for _, cached := range caches.Kinds {
		if sameKind(cached.Kind, kind) {
			kind = cached.Kind
		}
	}
	var page console.ObjectPage
	if err := c.get(ctx, &page, "object", "kind", kind, "name", name); err != nil {
		return err
	}
	if output == "json" {
		return printJSON(out, page)
	}
	if len(page.Writes) == 0 {
		terminal.Printf(out, "No recorded reconcile is of %s %s, or wrote it.\n", page.Object.Kind, page.Object.Name)
	}
	for _, w := range page.Writes {
		terminal.Printf(out, "%s  by %s %s\n", w.Time.Local().Format("15:04:05.000"), w.Controller, w.Request)
		printWrite(out, w.Write)
	}
	return nil
}

// printKey prints the timeline of a request.
func printKey(out io.Writer, key console.Key) {
	terminal.Printf(out, "%s %s", key.Controller, key.Request)
	switch q := key.Queue; {
	case q == nil:
		fmt.Fprint(out, ": not queued")
	case q.State == "waiting":
		terminal.Printf(out, ": waits until %s", q.Due.Local().Format("15:04:05.000"))
	default:
		terminal.Printf(out, ": %s since %s", q.State, q.Since.Local().Format("15:04:05.000"))
	}
	if key.Retries > 0 {
		terminal.Printf(out, ", %s", counted(key.Retries, "retry"))
	}
	fmt.Fprintln(out)
	for _, r := range key.Reconciles {
		result := r.Result
		if r.Running {
			result = "running"
		}
		terminal.Printf(out, "\n%s  %s in %s, after %s in the queue\n", r.Started.Local().Format("15:04:05.000"), result, r.Took, r.Waited)
		terminal.Printf(out, "  because  %s\n", causesText(r.Causes))
		if r.Error != "" {
			terminal.Printf(out, "  error    %s\n", r.Error)
		}
		for _, w := range r.Writes {
			printWrite(out, w)
		}
		for _, l := range r.Lines {
			terminal.Printf(out, "  log      %s %s\n", l.Message, l.Values)
		}
		for _, more := range r.NotShown {
			terminal.Printf(out, "  and %s\n", more)
		}
	}
	if key.More > 0 {
		terminal.Printf(out, "\nand %s\n", counted(key.More, "earlier reconcile"))
	}
	if key.Forgotten > 0 {
		terminal.Printf(out, "\nforgotten: %s of the controller\n", counted(int(key.Forgotten), "earlier reconcile"))
	}
}

// printWrite prints a write with its changes.
func printWrite(out io.Writer, w console.Write) {
	what := strings.TrimSpace(w.Kind + " " + w.Object)
	if w.SubResource != "" {
		what += " " + w.SubResource
	}
	terminal.Printf(out, "  %-8s %s", w.Verb, what)
	if w.Error != "" {
		terminal.Printf(out, ": %s", w.Error)
	}
	fmt.Fprintln(out)
	for _, c := range w.Changes {
		switch {
		case c.Before == "":
			terminal.Printf(out, "             + %s: %s\n", c.Field, c.After)
		case c.After == "":
			terminal.Printf(out, "             - %s: %s\n", c.Field, c.Before)
		default:
			terminal.Printf(out, "             ~ %s: %s → %s\n", c.Field, c.Before, c.After)
		}
	}
	if w.Unknown != "" {
		terminal.Printf(out, "             (%s)\n", w.Unknown)
	}
}
