package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/progress"
)

// prepare generates and builds concurrently, because most changes do not affect the generated files. If the generated
// files change, it builds again. It returns the program.
func (s *session) prepare(ctx context.Context, t *timings) (program string, ok bool) {
	program = filepath.Join(s.dir, "operator")
	next := program + ".new"
	building, cancel := context.WithCancel(ctx)
	defer cancel()
	built := make(chan error, 1)
	buildDone := t.start("build")
	log := &buildLog{}
	defer progress.Start(s.out.own(), log.String)()
	overlay := ""
	if !s.NoConsole {
		overlay = s.console.file(ctx, s.Main, s.dir)
	}
	go func() { built <- build(building, s.Main, overlay, next, log) }()
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		s.watchEmbedded(ctx)
	}()
	generateDone := t.start("generate")
	result, generateErr := s.generate(ctx)
	generateDone()
	<-listed
	codeChanged := result != nil && slices.ContainsFunc(result.Changed(), func(f generate.File) bool {
		abs, err := filepath.Abs(f.Path)
		return filepath.Ext(f.Path) == ".go" || err == nil && s.embedded.contains(abs)
	})
	if codeChanged {
		cancel()
	}
	err := <-built
	if codeChanged {
		err = build(ctx, s.Main, overlay, next, log)
	}
	buildDone()
	switch {
	case ctx.Err() != nil:
		return "", false
	case err != nil:
		s.out.fail("%v", err)
		return "", false
	case generateErr != nil:
		s.out.fail("%v", generateErr)
		return "", false
	}
	if err := os.Rename(next, program); err != nil {
		s.out.fail("%v", err)
		return "", false
	}
	return program, true
}

// watchEmbedded watches the files that the operator embeds.
func (s *session) watchEmbedded(ctx context.Context) {
	files, err := s.embedded.update(ctx)
	if err != nil {
		return // the build fails, too, and says why
	}
	if err := s.watcher.Include(files); err != nil {
		s.out.fail("embedded files cannot be watched: %v", err)
	}
}

// generate generates code and manifests, and prints the changes.
func (s *session) generate(ctx context.Context) (*generate.Result, error) {
	if s.GenerateNothing {
		return nil, nil
	}
	result, err := generate.Run(ctx, generate.Options{Args: s.Options.Generate, Tags: generate.DefaultTags})
	var unknown *generate.UnknownOptionsError
	if errors.As(err, &unknown) { // the project has its own way, and its files may be up to date
		if line := err.Error(); line != s.notGenerated {
			s.notGenerated = line
			s.out.fail("%s", line)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.generated = result
	for _, w := range result.Warnings {
		s.out.fail("%s", w)
	}
	for _, file := range result.Files {
		if file.State == generate.Stale {
			s.out.fail("stale %s: %s", file.Path, result.WhyStale())
		}
	}
	for _, file := range result.Changed() {
		s.out.say("%s %s", file.State, file.Path)
	}
	return result, nil
}
