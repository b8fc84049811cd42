// Judges objects as other tools do: each line of stdin is a question, each line of stdout its answer, both in JSON.
//
// With "lua", the script judges the object like a health check of Argo CD (util/lua/lua.go): the same interpreter, with the
// same libraries. With "current", Flux's own evaluator of healthCheckExprs does, with neither, Flux's kstatus.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type question struct {
	Object     json.RawMessage `json:"object"`
	Lua        string          `json:"lua"`
	Current    string          `json:"current"`
	InProgress string          `json:"inProgress"`
	Failed     string          `json:"failed"`
}

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Error   string `json:"error,omitempty"`
}

func main() {
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked question
		if err := questions.Decode(&asked); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			os.Exit(1)
		}
		found, err := judge(asked)
		if err != nil {
			found.Error = err.Error()
		}
		if err := answers.Encode(found); err != nil {
			os.Exit(1)
		}
	}
}

func judge(asked question) (answer, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(asked.Object); err != nil {
		return answer{}, err
	}
	if asked.Lua != "" {
		return argo(asked.Lua, object.Object)
	}
	result, err := flux(asked, object)
	if err != nil {
		return answer{}, err
	}
	return answer{Status: string(result.Status), Message: result.Message}, nil
}

func flux(asked question, object *unstructured.Unstructured) (*status.Result, error) {
	if asked.Current == "" {
		return status.Compute(object)
	}
	expressions := kustomize.HealthCheckExpressions{
		Current: asked.Current, InProgress: asked.InProgress, Failed: asked.Failed,
	}
	evaluator, err := cel.NewStatusEvaluator(&expressions)
	if err != nil {
		return nil, err
	}
	return evaluator.Evaluate(context.Background(), object)
}

// Argo CD opens these libraries only, and ends a script after a second.
func argo(script string, object map[string]any) (answer, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return answer{}, err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", decode(state, object))
	if err := state.DoString(script); err != nil {
		return answer{}, err
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return answer{}, errors.New("the script does not return a table")
	}
	message := ""
	if text, isText := result.RawGetString("message").(lua.LString); isText {
		message = string(text)
	}
	return answer{Status: lua.LVAsString(result.RawGetString("status")), Message: message}, nil
}

func decode(state *lua.LState, value any) lua.LValue {
	switch known := value.(type) {
	case bool:
		return lua.LBool(known)
	case int64:
		return lua.LNumber(known)
	case float64:
		return lua.LNumber(known)
	case string:
		return lua.LString(known)
	case []any:
		table := state.CreateTable(len(known), 0)
		for _, each := range known {
			table.Append(decode(state, each))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(known))
		for key, each := range known {
			table.RawSetString(key, decode(state, each))
		}
		return table
	}
	return lua.LNil
}
