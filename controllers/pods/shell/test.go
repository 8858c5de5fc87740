package shell

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// testClause evaluates the expression of [[.
func (in *interpreter) testClause(x syntax.TestExpr) bool {
	word := func(x syntax.TestExpr) (string, bool) {
		w, ok := x.(*syntax.Word)
		if !ok {
			return "", in.testClause(x)
		}
		text, ok := in.literal(w)
		return text, ok
	}
	switch x := x.(type) {
	case *syntax.Word:
		text, _ := word(x)
		return text != ""
	case *syntax.ParenTest:
		return in.testClause(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return !in.testClause(x.X)
		}
		text, _ := word(x.X)
		return in.unaryTest(x.Op.String(), text)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.AndTest:
			return in.testClause(x.X) && in.testClause(x.Y)
		case syntax.OrTest:
			return in.testClause(x.X) || in.testClause(x.Y)
		}
		left, _ := word(x.X)
		right, isWord := x.Y.(*syntax.Word)
		if !isWord {
			return false
		}
		switch x.Op {
		case syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch:
			pattern, ok := in.pattern(right)
			return ok && in.match(pattern, left) == (x.Op != syntax.TsNoMatch)
		case syntax.TsReMatch:
			return in.matchExpression(left, right)
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			text, _ := word(right)
			return compare(x.Op.String(), in.number(left), in.number(text))
		}
		text, _ := word(right)
		is, _ := in.binaryTest(left, x.Op.String(), text)
		return is
	}
	return false
}

// number evaluates a text as an arithmetic expression.
func (in *interpreter) number(text string) int {
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		return n
	}
	if checkNesting(text) != nil {
		return 0
	}
	x, err := syntax.NewParser().Arithmetic(strings.NewReader(text))
	if err != nil || x == nil {
		if err != nil {
			in.fail("%s: bad number", text)
			in.status = 2
		}
		return 0
	}
	n, _ := in.arithmetic(x)
	return n
}

// matchExpression evaluates =~ and sets BASH_REMATCH.
func (in *interpreter) matchExpression(text string, word *syntax.Word) bool {
	expr, ok := in.literal(word)
	if !ok {
		return false
	}
	if len(expr) > 0 && len(text) > maxCost/len(expr) {
		panic(&limitError{"a text and its pattern are too long"})
	}
	r, err := regexp.Compile(expr)
	if err != nil {
		in.fail("%v", err)
		in.status = 2
		return false
	}
	m := r.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	if err := in.assign("BASH_REMATCH", expand.Variable{Set: true, Kind: expand.Indexed, List: m}); err != nil {
		in.fail("%v", err)
	}
	return true
}

func compare(op string, a, b int) bool {
	switch op {
	case "-eq":
		return a == b
	case "-ne":
		return a != b
	case "-lt":
		return a < b
	case "-le":
		return a <= b
	case "-gt":
		return a > b
	}
	return a >= b
}

// unaryTest evaluates a test of a file or a text.
func (in *interpreter) unaryTest(op, arg string) bool {
	switch op {
	case "-z":
		return arg == ""
	case "-n":
		return arg != ""
	case "-t":
		n, err := strconv.Atoi(arg)
		return err == nil && in.files[n] != nil && in.files[n].terminal != nil
	case "-v":
		return in.variable(arg).IsSet()
	case "-o":
		o := in.options.byName(arg)
		return o != nil && *o
	}
	if arg == "" {
		return false
	}
	stat := in.stat
	if op == "-L" || op == "-h" {
		stat = in.fs.Lstat
	}
	info, err := stat(in.pathOf(arg))
	if err != nil {
		return false
	}
	m := info.Mode()
	switch op {
	case "-e", "-a", "-r", "-w", "-O", "-G", "-N":
		return true
	case "-f":
		return m.IsRegular()
	case "-d":
		return m.IsDir()
	case "-s":
		return info.Size() > 0
	case "-x":
		return m.IsDir() || m&0o111 != 0
	case "-L", "-h":
		return m&fs.ModeSymlink != 0
	case "-p":
		return m&fs.ModeNamedPipe != 0
	case "-c":
		return m&fs.ModeCharDevice != 0
	}
	return false // -b, -S, -g, -k, -u
}

// binaryTest evaluates a comparison, or returns the message about its arguments.
func (in *interpreter) binaryTest(a, op, b string) (is bool, problem string) {
	switch op {
	case "=", "==":
		return a == b, ""
	case "!=":
		return a != b, ""
	case "<":
		return a < b, ""
	case ">":
		return a > b, ""
	case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		m, err := strconv.Atoi(strings.TrimSpace(a))
		if err != nil {
			return false, a + ": bad number"
		}
		n, err := strconv.Atoi(strings.TrimSpace(b))
		if err != nil {
			return false, b + ": bad number"
		}
		return compare(op, m, n), ""
	case "-nt", "-ot", "-ef":
		first, err1 := in.stat(in.pathOf(a))
		second, err2 := in.stat(in.pathOf(b))
		switch {
		case op == "-ef":
			return err1 == nil && err2 == nil && first.Sys() != nil && first.Sys() == second.Sys(), ""
		case op == "-ot":
			first, second, err1, err2 = second, first, err2, err1
		}
		return err1 == nil && (err2 != nil || first.ModTime().After(second.ModTime())), ""
	}
	return false, op + ": unknown operand"
}

var unaryTests = "abcdefghknoprstuvwxzGLNORS"

// isUnary reports whether an argument of test is a unary operator.
func isUnary(s string) bool {
	return len(s) == 2 && s[0] == '-' && strings.Contains(unaryTests, s[1:])
}

func isBinary(s string) bool {
	switch s {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

// testExpression is the expression of test.
type testExpression struct {
	in      *interpreter
	args    []string
	depth   int
	problem string
}

// test evaluates the expression of the commands test and [. The number of arguments decides as in POSIX.
func test(in *interpreter, args []string) int {
	if args[0] == "[" {
		if args[len(args)-1] != "]" {
			return in.usage("[: missing ]")
		}
		args = args[:len(args)-1]
	}
	t := &testExpression{in: in, args: args[1:]}
	is := t.evaluate()
	if t.problem == "" && len(t.args) > 0 {
		t.problem = t.args[0] + ": unknown operand"
	}
	if t.problem != "" {
		return in.usage("%s", t.problem)
	}
	return oneIf(!is)
}

func (t *testExpression) evaluate() bool {
	switch a := t.args; {
	case len(a) == 0:
		return false
	case len(a) == 1:
		t.args = nil
		return a[0] != ""
	case len(a) == 3 && isBinary(a[1]):
		return t.primary()
	}
	return t.or()
}

func (t *testExpression) or() bool {
	is := t.and()
	for t.problem == "" && len(t.args) > 0 && t.args[0] == "-o" {
		t.args = t.args[1:]
		right := t.and()
		is = is || right
	}
	return is
}

func (t *testExpression) and() bool {
	is := t.not()
	for t.problem == "" && len(t.args) > 0 && t.args[0] == "-a" {
		t.args = t.args[1:]
		right := t.not()
		is = is && right
	}
	return is
}

func (t *testExpression) not() bool {
	if t.depth++; t.depth > t.in.limits.Depth {
		t.problem = "too many operators in each other"
		return false
	}
	defer func() { t.depth-- }()
	if len(t.args) > 1 && t.args[0] == "!" && !(len(t.args) > 2 && isBinary(t.args[1])) {
		t.args = t.args[1:]
		return !t.not()
	}
	return t.primary()
}

// primary evaluates a comparison, a test of one argument, or an expression in parentheses.
func (t *testExpression) primary() bool {
	a := t.args
	switch {
	case len(a) == 0:
		t.problem = "argument expected"
		return false
	case len(a) >= 3 && isBinary(a[1]):
		t.args = a[3:]
		is, problem := t.in.binaryTest(a[0], a[1], a[2])
		t.problem = problem
		return is
	case a[0] == "(":
		t.args = a[1:]
		is := t.or()
		if len(t.args) == 0 || t.args[0] != ")" {
			t.problem = "closing paren expected"
			return false
		}
		t.args = t.args[1:]
		return is
	case len(a) >= 2 && isUnary(a[0]):
		t.args = a[2:]
		return t.in.unaryTest(a[0], a[1])
	}
	t.args = a[1:]
	return a[0] != ""
}
