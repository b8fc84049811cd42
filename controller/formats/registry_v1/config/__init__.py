"""`spec.config` of a bundle. START HERE: `options`.

`deployment_config_schema` says what the section `deploymentConfig` accepts, `deployment_config` applies it.
"""
