// KRM functions that are made of kustomize's own code, by the name that the program is called by:
// its transformers by the kind of the functionConfig, Starlark, and a validator with the framework for functions.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/fn/runtime/starlark"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

var transformers = map[string]func() resmap.TransformerPlugin{
	"LabelTransformer":         builtins.NewLabelTransformerPlugin,
	"AnnotationsTransformer":   builtins.NewAnnotationsTransformerPlugin,
	"NamespaceTransformer":     builtins.NewNamespaceTransformerPlugin,
	"PrefixTransformer":        builtins.NewPrefixTransformerPlugin,
	"ImageTagTransformer":      builtins.NewImageTagTransformerPlugin,
	"ReplicaCountTransformer":  builtins.NewReplicaCountTransformerPlugin,
	"ReplacementTransformer":   builtins.NewReplacementTransformerPlugin,
	"PatchTransformer":         builtins.NewPatchTransformerPlugin,
	"PatchJson6902Transformer": builtins.NewPatchJson6902TransformerPlugin,
	"ValueAddTransformer":      builtins.NewValueAddTransformerPlugin,
}

// transform changes the items as a transformer of kustomize does.
func transform(list *framework.ResourceList) error {
	make, found := transformers[list.FunctionConfig.GetKind()]
	if !found {
		return fmt.Errorf("no transformer %q", list.FunctionConfig.GetKind())
	}
	config, err := list.FunctionConfig.String()
	if err != nil {
		return err
	}
	factory := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory())
	items, err := factory.NewResMapFromRNodeSlice(list.Items)
	if err != nil {
		return err
	}
	plugin := make()
	if err := plugin.Config(resmap.NewPluginHelpers(nil, nil, factory, nil), []byte(config)); err != nil {
		return err
	}
	if err := plugin.Transform(items); err != nil {
		return err
	}
	list.Items = items.ToRNodeSlice()
	return nil
}

// runStarlark runs the program in the field `source` of the functionConfig, as kpt's function starlark does.
func runStarlark(list *framework.ResourceList) error {
	source, err := list.FunctionConfig.GetString("source")
	if err != nil {
		return err
	}
	filter := starlark.Filter{Name: "starlark", Program: source}
	filter.FunctionConfig = list.FunctionConfig
	list.Items, err = filter.Filter(list.Items)
	return err
}

// requireLabels reports each item without one of the labels that the data of the functionConfig name.
func requireLabels(list *framework.ResourceList) error {
	wanted := list.FunctionConfig.GetDataMap()
	for _, item := range list.Items {
		labels := item.GetLabels()
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if _, found := labels[name]; found {
				continue
			}
			list.Results = append(list.Results, &framework.Result{
				Message:  fmt.Sprintf("set the label %s", name),
				Severity: framework.Severity(wanted[name]),
				ResourceRef: &yaml.ResourceIdentifier{
					TypeMeta: yaml.TypeMeta{APIVersion: item.GetApiVersion(), Kind: item.GetKind()},
					NameMeta: yaml.NameMeta{Name: item.GetName(), Namespace: item.GetNamespace()},
				},
				Field: &framework.Field{Path: "metadata.labels"},
			})
		}
	}
	if list.Results.ExitCode() != 0 {
		return list.Results
	}
	return nil
}

func main() {
	functions := map[string]framework.ResourceListProcessorFunc{
		"transform":      transform,
		"starlark":       runStarlark,
		"require-labels": requireLabels,
	}
	function := functions[filepath.Base(os.Args[0])]
	if function == nil {
		os.Exit(2)
	}
	if command.Build(function, command.StandaloneDisabled, false).Execute() != nil {
		os.Exit(1)
	}
}
