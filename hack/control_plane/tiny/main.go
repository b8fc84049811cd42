// The program of the pods in tests, alone in its image. It carries out its arguments one after the other, and then waits:
//
//	serve             answer http on :8080: / with a greeting, /exit/3 by ending with status 3
//	say TEXT          print a line
//	tell TEXT         write its termination message
//	sleep 2s          wait
//	allocate 200      take MiB of memory
//	create PATH       write an empty file
//	once PATH         end with status 1 if there is no such file, which is there the next time
//	read PATH         print a file, or end with status 1
//	stubborn          go on after SIGTERM
//	exit 3            end with a status
//	-v                end with status 0, as the pause image does
//
// SIGTERM ends it with status 0. As PID 1 of a node it also waits for the processes whose parents are gone.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ends
		os.Exit(0)
	}()
	go reap()
	arguments := os.Args[1:]
	next := func() string {
		if len(arguments) == 0 {
			fail(2, "an argument is missing")
		}
		first := arguments[0]
		arguments = arguments[1:]
		return first
	}
	for len(arguments) > 0 {
		switch step := next(); step {
		case "serve":
			go serve()
		case "say":
			fmt.Println(next())
		case "tell":
			check(os.WriteFile("/dev/termination-log", []byte(next()), 0o644))
		case "sleep":
			duration, err := time.ParseDuration(next())
			check(err)
			time.Sleep(duration)
		case "allocate":
			memory := make([]byte, number(next())<<20)
			for at := 0; at < len(memory); at += 4096 {
				memory[at] = 1
			}
			held = append(held, memory)
		case "create":
			check(os.WriteFile(next(), nil, 0o644))
		case "once":
			path := next()
			if _, err := os.Stat(path); err != nil {
				check(os.WriteFile(path, nil, 0o644))
				fail(1, "the first time")
			}
		case "read":
			content, err := os.ReadFile(next())
			check(err)
			os.Stdout.Write(content)
		case "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case "-v":
			os.Exit(0)
		case "exit":
			os.Exit(number(next()))
		default:
			fail(2, "there is no step "+step)
		}
	}
	select {}
}

var held [][]byte

func serve() {
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		if status, found := strings.CutPrefix(request.URL.Path, "/exit/"); found {
			fail(number(status), "asked to end")
		}
		fmt.Fprintln(response, "hello from", os.Getenv("HOSTNAME"))
	})
	check(http.ListenAndServe(":8080", nil))
}

func reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fail(1, err.Error())
	}
}

func fail(status int, text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(status)
}
