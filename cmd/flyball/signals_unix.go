//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"flyball.dev/cmd/flyball/internal/hostprocess"
)

// passed are the signals that a program gets in place of this process.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// signals are the signals that this process receives for a program.
type signals chan os.Signal

// catchSignals keeps the signals of this process for a program that is about to start: one that arrives before passTo
// is not lost.
func catchSignals() signals {
	s := make(signals, 16)
	signal.Notify(s, passed...)
	return s
}

// passTo passes the signals to a program until stop is called. The program may have ended. A terminal sends the signals of its keys to all processes
// in the foreground, so the program has these already.
func (s signals) passTo(p *hostprocess.Process) {
	for received := range s {
		if (received == syscall.SIGINT || received == syscall.SIGQUIT) && inForeground() {
			continue
		}
		p.Signal(received)
	}
}

// stop ends passTo, and gives the signals their former effect.
func (s signals) stop() {
	signal.Stop(s)
	close(s)
}

// inForeground reports whether this process is in the foreground of its terminal.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is none
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}
