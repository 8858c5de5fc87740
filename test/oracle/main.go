package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"flyball.dev/storage"
)

const usage = `usage: go run . build | compare | record [script...] | generate [-n count] [-seed number] | run [flag...] [--] command [argument...]`

// errNotBuilt is the error of a command that needs programs that are not there.
var errNotBuilt = errors.New("the programs are not in the cache: go run . build")

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	cancel()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs a command.
func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	b, err := cached()
	if err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return b.build(ctx)
	case "run":
		return execute(ctx, b, args[1:])
	}
	if !b.exist() {
		return errNotBuilt
	}
	switch args[0] {
	case "record":
		return record(ctx, b, args[1:])
	case "compare":
		return compareBoth(ctx, b, args[1:])
	case "generate":
		flags := flag.NewFlagSet("generate", flag.ContinueOnError)
		count := flags.Int("n", 2000, "the number of requests")
		seed := flags.Uint64("seed", 1, "the seed of the random choices")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return generate(ctx, b, *count, *seed)
	}
	return errors.New(usage)
}

// selected returns the scripts with the given names, or all if there are none.
func selected(names []string) ([]*script, error) {
	scripts, err := loadScripts("testdata")
	if err != nil || len(names) == 0 {
		return scripts, err
	}
	return slices.DeleteFunc(scripts, func(s *script) bool { return !slices.Contains(names, s.name) }), nil
}

// record writes the answers of kube-apiserver into the scripts.
func record(ctx context.Context, b binaries, names []string) error {
	scripts, err := selected(names)
	if err != nil {
		return err
	}
	results, err := playKubernetes(ctx, b, scripts)
	if err != nil {
		return err
	}
	keep(results)
	for _, s := range scripts {
		if err := os.WriteFile(s.file, s.format(), 0o644); err != nil {
			return err
		}
	}
	fmt.Println(len(results), "answers recorded")
	return nil
}

// compareBoth runs the scripts against both servers. It fails if kube-apiserver's answers are not
// those that are recorded, or if a difference of this module's server is not known. When it has run
// all scripts, it rewrites the list of differences and the report.
func compareBoth(ctx context.Context, b binaries, names []string) error {
	scripts, err := selected(names)
	if err != nil {
		return err
	}
	reference, err := playKubernetes(ctx, b, scripts)
	if err != nil {
		return err
	}
	for _, r := range reference {
		for _, d := range r.differences {
			fmt.Printf("recorded otherwise: %s\n\trecorded %s\n\tis       %s\n", line(r.script.name, r.exchange.name, d), oneLine(d.want), oneLine(d.got))
		}
	}
	results, err := playFlyball(ctx, scripts, nil, false)
	if err != nil {
		return err
	}
	list, err := loadKnown(differencesFile)
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range results {
		for _, d := range r.differences {
			if list.find(r.script.name, r.exchange.name, d) == nil {
				at := line(r.script.name, r.exchange.name, d)
				missing = append(missing, at)
				fmt.Printf("%s\n\twant %s\n\tgot  %s\n", at, oneLine(d.want), oneLine(d.got))
			}
		}
	}
	if len(names) > 0 {
		return nil
	}
	if err := list.rewrite(differencesFile, missing); err != nil {
		return err
	}
	if list, err = loadKnown(differencesFile); err != nil {
		return err
	}
	return report(results, list)
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

// playKubernetes runs scripts on a kube-apiserver that it starts and stops.
func playKubernetes(ctx context.Context, b binaries, scripts []*script) ([]result, error) {
	k, err := startKubernetes(ctx, b)
	if err != nil {
		return nil, err
	}
	results, err := play(ctx, k.server, scripts)
	return results, errors.Join(err, k.stop())
}

// keep makes results the recorded answers of their exchanges.
func keep(results []result) {
	for _, r := range results {
		r.exchange.recorded = r.got
	}
}

// playFlyball runs scripts on this module's server, which has no fast path with withoutFastPath. The storage is in memory if
// it is nil.
func playFlyball(ctx context.Context, scripts []*script, s storage.Store, withoutFastPath bool) ([]result, error) {
	to, plane, err := startFlyball(ctx, s, withoutFastPath)
	if err != nil {
		return nil, err
	}
	results, err := play(ctx, to, scripts)
	if stopped := plane.Stop(); err == nil {
		err = stopped
	}
	return results, err
}
